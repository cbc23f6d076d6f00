#pragma once

// Keeps the checkpoints of a job in one directory of the coordinator: ckpt-<step>.index and its
// data shards, one per ps, and the state file `checkpoint`. A checkpoint is visible only when its
// index is in place, and the index is written last, so a crash at any moment leaves the previous
// one loadable.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/base/file_system.h"
#include "coordinator/api/cluster_coordinator.h"
#include "coordinator/api/load_record.h"
#include "coordinator/api/progress.h"

namespace cohort {

// Thread-compatible.
class CheckpointManager {
 public:
  struct Options {
    std::string directory;  // empty: nothing is saved
    int64_t max_to_keep = 3;
    bool weights_only = false;  // Restore leaves slots, steps and epochs as they begin
  };

  CheckpointManager(FileSystem& files, ClusterCoordinator& coordinator, Options options);

  bool IsSaving() const { return !options_.directory.empty(); }

  // Removes what saves of processes that were killed left in the directory: before the first Save.
  void RemoveUnfinished();

  // Returns the prefix of the new checkpoint, and removes what was written where it fails. Deletes
  // those beyond max_to_keep. What the parameter servers moved for the slices of `variables` since
  // the last one is saved with it (load_record.h).
  absl::StatusOr<std::string> Save(const Progress& progress,
                                   absl::Span<const proto::VariableLayout> variables = {});

  // Restores variables and slots. Slots that the checkpoint does not have begin as new; they are
  // counted in the log, as are those that nobody takes. `which` is what FindCheckpoint takes.
  // Nothing when "latest" finds no checkpoint, which is logged. Errors: those of FindCheckpoint;
  // NOT_FOUND and DATA_LOSS naming the file and the intact checkpoints beside it;
  // FAILED_PRECONDITION for a checkpoint of another model, listing every variable that is missing
  // or has another shape.
  absl::StatusOr<std::optional<Progress>> Restore(
      const std::string& which, absl::Span<const proto::VariableLayout> variables);

 private:
  absl::Status Write(const std::string& prefix, const Progress& progress,
                     absl::Span<const proto::VariableLayout> variables);
  // Names it in the state file, and deletes those beyond max_to_keep.
  absl::Status MakeLatest(const std::string& name);

  FileSystem& files_;
  ClusterCoordinator& coordinator_;
  const Options options_;
  LoadRecord loads_;
};

}  // namespace cohort
