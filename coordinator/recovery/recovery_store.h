#pragma once

// The recovery checkpoints of a job in one directory of the coordinator: recovery-<epoch>-<number>.
// They are ordinary TensorFlow V2 checkpoints that also contain the coordinator's own state and,
// for every slice, the log of applied closures. The two newest checkpoints are kept. The older of
// the two serves a slow reader that has not finished, and a starting coordinator that finds the
// newest one damaged.
//
// There is no state file: the file names in the directory tell the order of the checkpoints, by
// epoch and then by number. A coordinator whose job another one has taken over may still write
// late, but only under its own, lower epoch. Other files, such as the job's own checkpoints, may
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

// The name of the checkpoint's tensor that contains a serialized CoordinatorState.
inline constexpr char kCoordinatorStateName[] = "_COHORT/coordinator";

// Returns the serialized state as a tensor of shape uint8[n].
Tensor CoordinatorStateTensor(const proto::CoordinatorState& state);

// Reads, commits and removes the recovery checkpoints of a directory. Thread-compatible.
class RecoveryStore {
 public:
  RecoveryStore(FileSystem& files, std::string directory);

  // Creates the directory if it does not exist. Errors: the file system's, naming the directory.
  absl::Status Prepare();

  struct Committed {
    std::string prefix;
    proto::CoordinatorState state;
  };
  // The checkpoints that earlier coordinators left in the directory, with the coordinator's state
  // in each.
  struct Left {
    std::vector<Committed> checkpoints;  // the readable checkpoints, newest first
    uint64_t epoch = 0;   // the highest epoch of any checkpoint, even of a damaged one
    absl::Status damage;  // the error of the newest checkpoint, if it is damaged
  };
  // Reads the checkpoints in the directory. Errors: DATA_LOSS naming the file when there are
  // checkpoints and none can be read; the file system's.
  absl::StatusOr<Left> ReadLeft() const;

  // Returns where the slices of the newest of these checkpoints begin; nothing without checkpoints.
  // The slices of an older one contain them, because a job that goes on cuts only further. Errors:
  // those of BundleReader::Open.
  absl::StatusOr<SliceStarts> ReadSlices(const Left& left) const;

  // Checks that these checkpoints are of the job `job`. Errors: FAILED_PRECONDITION of class
  // CONFIGURATION naming both jobs.
  absl::Status CheckJob(const Left& left, const std::string& job) const;

  // Returns the prefix of a new checkpoint, which no other checkpoint has.
  std::string NewPrefix(uint64_t epoch);

  // Makes the checkpoint the latest one by writing its index. A crash before that leaves the
  // earlier checkpoint as the latest; after that, the new one survives any crash. Removes all
  // checkpoints older than the two newest.
  absl::Status Commit(const std::string& prefix, int num_shards,
                      absl::Span<const proto::SavedSlice> slices);

  // Removes the files of a failed save. If a task writes files even later, the next Commit,
  // RemoveLeftovers or Clear removes those.
  void Discard(const std::string& prefix);

  // Removes the files of unfinished saves of epochs before `epoch`, which no coordinator can finish
  // any more.
  void RemoveLeftovers(uint64_t epoch);

  // Removes every recovery checkpoint after the end of the job; a failed removal does not stop the
  // others. Errors: the first of the file system's.
  absl::Status Clear();

  const std::string& directory() const { return directory_; }

 private:
  FileSystem& files_;
  const std::string directory_;
  uint64_t last_number_ = 0;
};

}  // namespace cohort
