#pragma once

// The recovery checkpoints of a job in one directory of the coordinator. Their names are
// recovery-<epoch>-<number>. They are ordinary TensorFlow V2 checkpoints that also contain the
// coordinator's own state and, for every slice, the history of applied closures. The two newest
// checkpoints are kept. The older one is for a reader that began before the newest was written, and
// for a coordinator that starts and finds the newest one damaged.
//
// There is no state file. The file names tell the order of the checkpoints: by epoch, and then by
// number. If another coordinator has taken over the job, the old coordinator may still write files,
// but only under its own, lower epoch. Other files, such as the user's checkpoints of the job, may
// lie in the same directory.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/base/file_system.h"
#include "common/checkpoint/bundle.h"
#include "common/tensor/tensor.h"
#include "proto/ps.pb.h"
#include "proto/recovery.pb.h"

namespace cohort {

// The name of the tensor that contains the serialized CoordinatorState in a checkpoint.
inline constexpr char kCoordinatorStateName[] = "_COHORT/coordinator";

// Returns the serialized state as a tensor of type uint8 and shape [n].
Tensor CoordinatorStateTensor(const proto::CoordinatorState& state);

// Reads, commits and removes the recovery checkpoints in one directory. Thread-compatible.
class RecoveryStore {
 public:
  RecoveryStore(FileSystem& files, std::string directory);

  // Creates the directory if it does not exist. Errors: those of the file system, naming the
  // directory.
  absl::Status Prepare();

  struct Committed {
    std::string prefix;
    proto::CoordinatorState state;
  };
  // The checkpoints that earlier coordinators have left in the directory.
  struct Left {
    std::vector<Committed> checkpoints;  // the readable checkpoints, newest first
    uint64_t epoch = 0;   // highest epoch in the checkpoints' names, damaged ones included
    absl::Status damage;  // error of the newest checkpoint if it is damaged
  };
  // Reads the coordinator's state from every checkpoint in the directory. Errors: DATA_LOSS naming
  // a file, if there are checkpoints and none can be read; those of the file system.
  absl::StatusOr<Left> ReadLeft() const;

  // Returns where the slices of the newest of these checkpoints begin; nothing without checkpoints.
  // The slices of an older one contain them, because a job that goes on cuts only further. Errors:
  // those of BundleReader::Open.
  absl::StatusOr<SliceStarts> ReadSlices(const Left& left) const;

  // Checks that these checkpoints are of the job `job`. Errors: FAILED_PRECONDITION of class
  // CONFIGURATION naming both jobs.
  absl::Status CheckJob(const Left& left, const std::string& job) const;

  // Returns the prefix of a new checkpoint. Each call returns another prefix.
  std::string NewPrefix(uint64_t epoch);

  // Makes the checkpoint `prefix` the latest one by writing its index. If the process crashes
  // before that, the earlier checkpoint is still the latest; after that, the new checkpoint
  // survives any crash. Removes all checkpoints older than the two newest.
  absl::Status Commit(const std::string& prefix, int num_shards,
                      absl::Span<const proto::SavedSlice> slices);

  // Removes the files of a failed save. If a task writes further files after that, they are removed
  // by the next Commit, RemoveLeftovers or Clear.
  void Discard(const std::string& prefix);

  // Removes the files of incomplete checkpoints of epochs before `epoch`, which no coordinator can
  // complete any more.
  void RemoveLeftovers(uint64_t epoch);

  // Removes all recovery checkpoints, because the job has ended. Continues after a failed removal.
  // Errors: the first error of the file system.
  absl::Status Clear();

  const std::string& directory() const { return directory_; }

 private:
  FileSystem& files_;
  const std::string directory_;
  uint64_t last_number_ = 0;
};

}  // namespace cohort
