#pragma once

// The GPUs of one process, joined by NCCL. One thread drives all GPUs of the group at once, so no
// rank can be missing, and the GPUs need not agree on calls first, as ranks in several processes
// must (nccl_communicator.h).

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "worker/collective/nccl/nccl_table.h"

namespace cohort {

// The GPUs of one process as one group. Thread-compatible. Errors of all methods: UNAVAILABLE with
// the words of CUDA or NCCL.
class NcclLocalGroup {
 public:
  // Opens a group of GPUs, each named once in `gpus`. `table` outlives the group.
  static absl::StatusOr<std::unique_ptr<NcclLocalGroup>> Open(const NcclTable& table,
                                                              const std::vector<int32_t>& gpus);
  ~NcclLocalGroup();
  NcclLocalGroup(const NcclLocalGroup&) = delete;
  NcclLocalGroup& operator=(const NcclLocalGroup&) = delete;

  // Adds up the arrays `values` of all GPUs, of `count` elements each, into `sum` on the first GPU,
  // which may be the first GPU's array. The sum is complete on return. After an error the group
  // must not be used any more.
  absl::Status Sum(const std::vector<const float*>& values, int64_t count, float* sum);

 private:
  NcclLocalGroup(const NcclTable& table, NcclLocal* local) : table_(table), local_(local) {}

  const NcclTable& table_;
  NcclLocal* const local_;
};

}  // namespace cohort
