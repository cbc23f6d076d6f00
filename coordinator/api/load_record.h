#pragma once

// The bytes that the parameter servers moved for the rows of each variable, kept with every
// checkpoint as the int64 tensor `<variable>/.COHORT_LOAD` of [slices, 3]: first row, number of
// rows, bytes. The next job that restores it may place its variables by that
// (strategy/placement.h), however it cuts them.

#include <cstdint>
#include <map>
#include <string>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/base/file_system.h"
#include "common/tensor/tensor.h"
#include "coordinator/job/job_spec.h"
#include "coordinator/strategy/placement.h"
#include "proto/ps.pb.h"

namespace cohort {

// Thread-compatible.
class LoadRecord {
 public:
  // Returns what was moved since the last call, by the name of its tensor. A server that was
  // started again has counted from then on.
  std::map<std::string, Tensor> Take(const proto::PsStatsResponse& stats,
                                     absl::Span<const proto::VariableLayout> variables);

 private:
  std::map<uint32_t, uint64_t> taken_;  // bytes by slice id
};

// Reads the loads in the checkpoint `prefix`. Errors: those of BundleReader; DATA_LOSS for a
// malformed tensor.
absl::StatusOr<MeasuredLoads> ReadLoads(FileSystem& files, const std::string& prefix);
// Reads the loads in the checkpoint that the job restores; nothing if there is none, or if its
// placement does not ask for them.
absl::StatusOr<MeasuredLoads> ReadJobLoads(FileSystem& files, const JobSpec& job);

}  // namespace cohort
