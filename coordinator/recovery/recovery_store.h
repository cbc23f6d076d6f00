#pragma once

// The recovery checkpoints of a job in one directory of the coordinator: recovery-<epoch>-<number>
// and the state file `checkpoint`, for people and tools. They are ordinary TensorFlow V2
// checkpoints that also hold the coordinator's own state and the once-only log of every slice. The
// last two are kept: the newest, and the one before it, which a slow reader may still be at.
//
// The latest is the complete one of the highest epoch, and in it of the highest number, never what
// the state file says: a coordinator that was taken over may still write that file, late.

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

// uint8[n].
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
  // The last committed one; nothing when there is none. Errors: DATA_LOSS naming the file.
  absl::StatusOr<std::optional<Committed>> ReadLatest() const;

  // Of a checkpoint that is to be written now; not used before.
  std::string NewPrefix(uint64_t epoch);

  // Makes the checkpoint the latest one: after this it survives a crash at any moment, and before
  // it the one before is the latest.
  absl::Status Commit(const std::string& prefix, int num_shards,
                      absl::Span<const proto::SavedSlice> slices);

  // Removes every recovery checkpoint: the job has ended.
  absl::Status Clear();

  const std::string& directory() const { return directory_; }

 private:
  FileSystem& files_;
  const std::string directory_;
  uint64_t last_number_ = 0;
};

}  // namespace cohort
