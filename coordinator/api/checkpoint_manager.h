#pragma once

// The checkpoints of a job in one directory of the coordinator: ckpt-<step>.index with its data
// shards, one per ps, and the state file `checkpoint`. The index is written last, and a checkpoint
// is visible only when its index is in place. So a crash at any moment leaves the previous
// checkpoint loadable.

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

// Checks, before any task is needed, that Restore would find a checkpoint whose index is readable,
// whose files have the right sizes, and which has `variables`, as far as these are known. `which`
// has the form that FindCheckpoint takes; "latest" may find nothing. Errors: those of
// FindCheckpoint; NOT_FOUND, DATA_LOSS and FAILED_PRECONDITION as in Restore.
absl::Status CheckRestorable(FileSystem& files, const std::string& directory,
                             const std::string& which,
                             absl::Span<const proto::VariableLayout> variables);

// Saves and restores the checkpoints of a job in one directory. Thread-compatible.
class CheckpointManager {
 public:
  struct Options {
    std::string directory;  // where checkpoints are saved; empty: nothing is saved
    int64_t max_to_keep = 3;
    // True: Restore takes the variables only, and slots, steps and epochs keep their initial
    // values.
    bool weights_only = false;
  };

  CheckpointManager(FileSystem& files, ClusterCoordinator& coordinator, Options options);

  // Returns the prefix of the checkpoint that was saved or restored last; empty if there is none.
  const std::string& latest() const { return latest_; }
  // Returns whether `prefix` names a checkpoint with a readable index and all its bytes, which are
  // not read.
  bool IsIntact(const std::string& prefix) const;

  // Returns whether `prefix` names a checkpoint that is intact and records `progress`.
  bool Holds(const std::string& prefix, const Progress& progress) const;

  bool IsSaving() const { return !options_.directory.empty(); }

  // Removes the files of unfinished saves that killed processes left in the directory. Called
  // before the first Save.
  void RemoveUnfinished();

  // Returns the prefix that Save would give to a checkpoint of this step now.
  absl::StatusOr<std::string> UnusedPrefix(int64_t step) const;

  // Writes a checkpoint and returns its prefix; a failed save removes the files that it wrote.
  // Deletes the oldest checkpoints beyond max_to_keep. The checkpoint also records how many bytes
  // the parameter servers have moved for the slices of `variables` since the last save
  // (load_record.h).
  absl::StatusOr<std::string> Save(const Progress& progress,
                                   absl::Span<const proto::VariableLayout> variables = {});

  // Takes a checkpoint that an earlier process has written as the one that was saved last.
  absl::Status Adopt(const std::string& prefix);

  // Restores variables and optimizer slots. Slots that the checkpoint lacks get initial values; the
  // log counts these slots, and the stored slots that the job does not have. `which` has the form
  // that FindCheckpoint takes. Returns nothing if "latest" finds no checkpoint, and logs that fact.
  // Errors: those of FindCheckpoint; NOT_FOUND and DATA_LOSS naming the file and the intact
  // checkpoints in its directory; FAILED_PRECONDITION for a checkpoint of another model, listing
  // every variable that is missing or has another shape.
  absl::StatusOr<std::optional<Progress>> Restore(
      const std::string& which, absl::Span<const proto::VariableLayout> variables);

 private:
  absl::Status Write(const std::string& prefix, const Progress& progress,
                     absl::Span<const proto::VariableLayout> variables);
  // Names the checkpoint as the latest in the state file, and deletes the oldest checkpoints beyond
  // max_to_keep.
  absl::Status MakeLatest(const std::string& name);

  FileSystem& files_;
  ClusterCoordinator& coordinator_;
  const Options options_;
  LoadRecord loads_;
  std::string latest_;
};

}  // namespace cohort
