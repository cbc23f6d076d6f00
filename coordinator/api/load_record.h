#pragma once

// The bytes that the parameter servers moved for the rows of each variable. Every checkpoint keeps
// them as the int64 tensor `<variable>/.COHORT_LOAD` of shape [slices, 3]: first row, number of
// rows, bytes. The next job that restores the checkpoint may place its variables by these loads
// (strategy/placement.h), however it cuts the variables.

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

// Turns the byte counters of parameter servers into load records of checkpoints. Thread-compatible.
class LoadRecord {
 public:
  // Returns the bytes moved for each slice since the last call, by the name of the checkpoint
  // tensor. For a server that was restarted, counts only from its restart.
  std::map<std::string, Tensor> Take(const proto::PsStatsResponse& stats,
                                     absl::Span<const proto::VariableLayout> variables);

 private:
  std::map<uint32_t, uint64_t> taken_;  // byte counters at the last call of Take, by slice id
};

// Reads the load records in the checkpoint `prefix`. Errors: those of BundleReader; DATA_LOSS for a
// malformed tensor.
absl::StatusOr<MeasuredLoads> ReadLoads(FileSystem& files, const std::string& prefix);
// Reads the load records in the checkpoint that the job restores. Returns an empty map if the job
// restores no checkpoint or if its placement does not use load records.
absl::StatusOr<MeasuredLoads> ReadJobLoads(FileSystem& files, const JobSpec& job);

}  // namespace cohort
