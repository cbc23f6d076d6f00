#pragma once

// The GPUs of one process, joined by NCCL. One thread drives all of them at once, so no rank can be
// missing, and nothing has to be agreed first as between processes (nccl_communicator.h).

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "worker/collective/nccl/nccl_table.h"

namespace cohort {

// Thread-compatible. Errors of all methods: UNAVAILABLE with the words of CUDA or NCCL.
class NcclLocalGroup {
 public:
  // Each GPU once. The table outlives the group.
  static absl::StatusOr<std::unique_ptr<NcclLocalGroup>> Open(const NcclTable& table,
                                                              const std::vector<int32_t>& gpus);
  ~NcclLocalGroup();
  NcclLocalGroup(const NcclLocalGroup&) = delete;
  NcclLocalGroup& operator=(const NcclLocalGroup&) = delete;

  // Into `sum` of the first GPU the sum of what is at `values` of each, so many of them; `sum` may
  // be the first. It is there when this returns. After an error the group is of no more use.
  absl::Status Sum(const std::vector<const float*>& values, int64_t count, float* sum);

 private:
  NcclLocalGroup(const NcclTable& table, NcclLocal* local) : table_(table), local_(local) {}

  const NcclTable& table_;
  NcclLocal* const local_;
};

}  // namespace cohort
