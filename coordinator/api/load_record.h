#pragma once

// A load record: the bytes that the parameter servers moved for the rows of one variable. Every
// checkpoint keeps the load record of each variable as the int64 tensor `<variable>/.COHORT_LOAD`
// of shape [slices, 3]: first row, number of rows, bytes. The next job that restores the checkpoint
// may place its variables by these loads (strategy/placement.h), even if it cuts the variables into
// other slices.

#include <cstdint>
#include <map>
#include <string>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/base/file_system.h"
#include "common/tensor/tensor.h"
#include "coordinator/strategy/placement.h"
#include "proto/ps.pb.h"

namespace cohort {

struct JobSpec;

// Turns the byte counters of parameter servers into load records of checkpoints. Thread-compatible.
class LoadRecord {
 public:
  // Returns the load record of each variable since the last call, under the record's tensor name.
  // For slices of a server that was restarted since then, only the bytes since the restart are
  // counted.
  std::map<std::string, Tensor> Take(const proto::PsStatsResponse& stats,
                                     absl::Span<const proto::VariableLayout> variables);

 private:
  std::map<uint32_t, uint64_t> taken_;  // byte counters by slice id, at the last call of Take
};

// Reads all load records from the checkpoint `prefix`. Errors: those of BundleReader; DATA_LOSS for
// a record of another type or shape, or with impossible numbers.
absl::StatusOr<MeasuredLoads> ReadLoads(FileSystem& files, const std::string& prefix);
// Reads the load records from the checkpoint that the job restores. Returns an empty map if the job
// restores no checkpoint, or if its placement is not "measured".
absl::StatusOr<MeasuredLoads> ReadJobLoads(FileSystem& files, const JobSpec& job);

}  // namespace cohort
