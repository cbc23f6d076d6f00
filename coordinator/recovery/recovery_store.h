#pragma once

// The recovery checkpoints of a job in one directory of the coordinator: recovery-<epoch>-<number>.
// They are ordinary TensorFlow V2 checkpoints that also hold the coordinator's own state and the
// once-only log of every slice. The last two are kept: the newest, and the one before it, which a
// slow reader may still be at, and which a coordinator that starts takes where the newest is
// damaged.
//
// There is no state file: what the directory lists is what there is, newest first by epoch and then
// by number. A coordinator that was taken over may still write, late, but only under its own epoch,
// and other files, such as the job's own checkpoints, may lie in the same directory.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/base/file_system.h"
#include "common/tensor/tensor.h"
#include "proto/ps.pb.h"
#include "proto/recovery.pb.h"

namespace cohort {

// Name of the tensor with a serialized CoordinatorState.
inline constexpr char kCoordinatorStateName[] = "_COHORT/coordinator";

// Returns the state as uint8[n].
Tensor CoordinatorStateTensor(const proto::CoordinatorState& state);

// Thread-compatible.
class RecoveryStore {
 public:
  RecoveryStore(FileSystem& files, std::string directory);

  // Errors: the file system's, naming the directory.
  absl::Status Prepare();

  struct Committed {
    std::string prefix;
    proto::CoordinatorState state;
  };
  // The checkpoints and the state that earlier coordinators left.
  struct Left {
    std::vector<Committed> checkpoints;  // newest first: those whose index and state can be read
    uint64_t epoch = 0;                  // the highest of any checkpoint, also of a damaged one
    absl::Status damage;                 // the newest one's, if it cannot be read
  };
  // Errors: DATA_LOSS naming the file when there are checkpoints and none can be read; the file
  // system's.
  absl::StatusOr<Left> ReadLeft() const;

  // Returns the name of a checkpoint that is to be written now. No other has it.
  std::string NewPrefix(uint64_t epoch);

  // Makes the checkpoint the latest one: after this it survives a crash at any moment, and before
  // it the one before is the latest. Removes all that is older than the two newest.
  absl::Status Commit(const std::string& prefix, int num_shards,
                      absl::Span<const proto::SavedSlice> slices);

  // Removes what a save that failed has written. What a task still writes is removed by the next
  // Commit, RemoveLeftovers or Clear.
  void Discard(const std::string& prefix);

  // Removes what saves of epochs before `epoch` left unfinished: no coordinator of those can end
  // them.
  void RemoveLeftovers(uint64_t epoch);

  // Removes every recovery checkpoint: the job has ended. Tries all of them. Errors: the first of
  // the file system's.
  absl::Status Clear();

  const std::string& directory() const { return directory_; }

 private:
  FileSystem& files_;
  const std::string directory_;
  uint64_t last_number_ = 0;
};

}  // namespace cohort
