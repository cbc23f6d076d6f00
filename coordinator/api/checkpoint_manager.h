#pragma once

// The checkpoints of a job in one directory of the coordinator. A checkpoint is an index file,
// ckpt-<step>.index, and one data shard per ps; the state file `checkpoint` lists the checkpoints.
// A checkpoint is visible to readers only once its index exists, and the index is written last. So
// a crash at any moment leaves the previous checkpoint loadable.

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "common/base/file_system.h"
#include "coordinator/api/cluster_coordinator.h"
#include "coordinator/api/progress.h"

namespace cohort {

class LoadRecord;

// Checks, without any task, that Restore could load the checkpoint: its index is
// readable, its files have the right sizes, and it has every variable of `variables`, which may be
// a part of the job's variables. `which` has the form that FindCheckpoint takes; if "latest" finds
// no checkpoint, the check succeeds. Errors: those of FindCheckpoint; NOT_FOUND, DATA_LOSS and
// FAILED_PRECONDITION as in Restore.
absl::Status CheckRestorable(FileSystem& files, const std::string& directory,
                             const std::string& which,
                             absl::Span<const proto::VariableLayout> variables);

// Saves and restores the checkpoints of a job in one directory. Thread-compatible.
class CheckpointManager {
 public:
  struct Options {
    // The directory in which checkpoints are saved. If empty, nothing is saved.
    std::string directory;
    int64_t max_to_keep = 3;
    // If true, Restore takes only the variables from a checkpoint. Optimizer slots, steps and
    // epochs keep their initial values.
    bool weights_only = false;
  };

  CheckpointManager(FileSystem& files, ClusterCoordinator& coordinator, Options options);
  ~CheckpointManager();

  // Returns the prefix of the checkpoint that was saved or restored last; empty if there is none.
  const std::string& latest() const { return latest_; }
  // Returns whether `prefix` names a checkpoint with a readable index and data files of the right
  // sizes. The data files are not read.
  bool IsIntact(const std::string& prefix) const;

  // Returns whether the checkpoint `prefix` is intact and records exactly the training progress
  // `progress`.
  bool Holds(const std::string& prefix, const Progress& progress) const;

  // Sets the state of the functions of columns through which the data go (PreprocessingPath), as
  // text, which each Save writes beside the checkpoint. Empty: there is none.
  void SetPreprocessing(std::string text) { preprocessing_ = std::move(text); }

  bool IsSaving() const { return !options_.directory.empty(); }

  // Removes the files of unfinished saves, which processes that were killed left in the directory.
  // Must be called before the first Save. Removes nothing if another coordinator may have taken
  // over the tasks.
  void RemoveUnfinished();

  // Returns the prefix that Save would now give to a checkpoint of step `step`.
  absl::StatusOr<std::string> UnusedPrefix(int64_t step) const;

  // Writes a checkpoint and returns its prefix; a failed save removes the files that it wrote. If
  // another coordinator has taken over the tasks, it writes and removes nothing that this one may
  // have, and fails with class STALE.
  // Deletes the oldest checkpoints beyond max_to_keep. The checkpoint also records how many bytes
  // the parameter servers have moved for the slices of `variables` since the last save
  // (load_record.h).
  absl::StatusOr<std::string> Save(const Progress& progress,
                                   absl::Span<const proto::VariableLayout> variables = {});

  // Makes a checkpoint that an earlier process has written the latest one: writes the state file as
  // Save does.
  absl::Status Adopt(const std::string& prefix);

  // Restores variables and optimizer slots from a checkpoint. Slots that the checkpoint lacks get
  // initial values. The log counts these slots, and the slots in the checkpoint that the job does
  // not need. `which` has the form that FindCheckpoint takes. If "latest" finds no checkpoint,
  // returns nothing and logs that nothing was restored. Errors: those of FindCheckpoint; NOT_FOUND
  // and DATA_LOSS naming the file and the intact checkpoints in its directory; FAILED_PRECONDITION
  // for a checkpoint of another model, listing every variable that is missing or has another shape.
  absl::StatusOr<std::optional<Progress>> Restore(
      const std::string& which, absl::Span<const proto::VariableLayout> variables);

 private:
  absl::Status Write(const std::string& prefix, const Progress& progress,
                     absl::Span<const proto::VariableLayout> variables);
  // Names the checkpoint `name` as the latest in the state file, and deletes the oldest checkpoints
  // beyond max_to_keep.
  absl::Status MakeLatest(const std::string& name);

  FileSystem& files_;
  ClusterCoordinator& coordinator_;
  const Options options_;
  const std::unique_ptr<LoadRecord> loads_;
  std::string preprocessing_;
  std::string latest_;
};

}  // namespace cohort
