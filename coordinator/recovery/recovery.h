#pragma once

// Keeps a job alive when a parameter server or the coordinator itself is lost.
//
//   watching --checkpoint is due--> saving --committed, or failed--> watching
//   any --a ps was lost--> claiming (every ps is waited for) --> restoring --> watching
//   any --another coordinator has taken over, or a restore cannot be done--> stopped
//
// Saving: a cut is begun (redo_log.h), every ps freezes what it holds, that is written while
// training goes on (shard_transfer.h), the index makes it one checkpoint, and what the cut covers
// is durable. Restoring: the scheduler is paused, the next epoch claimed, every ps, also those that
// never died, is put back to the last committed cut, or to the initial values, and what the cut
// does not cover runs again.
//
// All state is touched on one strand, which also writes the files.

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/base/strand.h"
#include "common/wire/world.h"
#include "coordinator/cluster/cluster.h"
#include "coordinator/homes/shard_transfer.h"
#include "coordinator/recovery/recovery_store.h"
#include "coordinator/schedule/scheduler.h"
#include "proto/plan.pb.h"

namespace cohort {

// Thread-safe. Shared: calls and timers hold it.
class Recovery : public std::enable_shared_from_this<Recovery> {
 public:
  struct Options {
    std::string job;
    std::string directory;
    absl::Duration interval = absl::Seconds(10);  // from the end of one checkpoint to the next
    absl::Duration call_timeout = absl::Seconds(60);
    // Tell that a way back to a checkpoint begins, perhaps anew, and ends well. They must not
    // block.
    std::function<void()> on_recovering;
    std::function<void()> on_recovered;
  };
  using Done = absl::AnyInvocable<void(absl::Status)>;
  // Returns what the training loop needs to go on from a cut. Runs on the strand; must not call
  // back.
  using ApplicationState = std::function<std::string(const Cut&)>;

  static std::shared_ptr<Recovery> Create(World world, Options options,
                                          std::shared_ptr<Cluster> cluster,
                                          std::shared_ptr<Scheduler> scheduler,
                                          std::shared_ptr<ShardTransfer> transfer);

  // Begins to watch the time.
  void Start();
  // Stops for good; whatever waits ends with CANCELLED.
  void Stop();

  void SetApplicationState(ApplicationState state);
  // Variables that a restore makes again, on servers that have lost them. `done` runs when the last
  // checkpoint, if there is one, holds them too: it could not be restored without. Errors: as
  // Checkpoint.
  void AddVariables(std::vector<proto::VariableLayout> layouts, Done done);

  void OnPsLost(const absl::Status& cause);
  // Homes of mirrored variables that others have, too, are away: a checkpoint of theirs begins
  // anew with another one.
  void OnHomesAway(const std::set<int>& homes, const absl::Status& cause);
  // Ends the job: whatever waits ends with the error.
  void EndJob(const absl::Status& error);
  // Takes a checkpoint that begins after this call, or after the recovery under way. Errors: those
  // of the parameter servers and of files.
  void Checkpoint(Done done);
  // Lets closures in flight end, for at most `patience`, and takes a checkpoint; no other closure
  // begins until Release, or until what is lost was recovered. `done` runs within twice that time,
  // so that a process which has to end can. One that waits for another's checkpoint gets the same.
  // Errors: as Checkpoint; UNAVAILABLE where the job waits for a parameter server or has not begun;
  // DEADLINE_EXCEEDED.
  void CheckpointAndHold(absl::Duration patience, Done done);
  // Lets closures begin again; called once for each CheckpointAndHold, after its end. They begin
  // after the last one.
  void Release();
  // Does both for a task that leaves within `patience`: `let_go` runs, once, when the task may
  // leave.
  void SaveBeforeLeave(const std::string& task, absl::Duration patience,
                       absl::AnyInvocable<void()> let_go);
  // Puts every ps back to the first of `left` that is whole, newest first, which an earlier
  // coordinator left: before the first closure. None: to the initial values. `done` gets the state
  // that was taken. Errors: DATA_LOSS or NOT_FOUND naming the file of the newest one when none is
  // whole.
  using Adopted = absl::AnyInvocable<void(absl::StatusOr<proto::CoordinatorState>)>;
  void Adopt(std::vector<RecoveryStore::Committed> left, Adopted done);
  // Removes all checkpoints, as the job has ended. Nothing more is saved.
  void Forget(Done done);

 private:
  enum class Phase { kWatching, kSaving, kRecovering, kStopped };
  // The checkpoint that is under way.
  struct Saving {
    uint64_t round = 0;
    uint64_t number = 0;  // number of the begun ones
    std::string prefix;
    proto::CoordinatorState state;
    Cut cut;
  };

  Recovery(World world, Options options, std::shared_ptr<Cluster> cluster,
           std::shared_ptr<Scheduler> scheduler, std::shared_ptr<ShardTransfer> transfer);
  void Post(absl::AnyInvocable<void()> task);
  void Tick();
  // Parts of a CheckpointAndHold: the request for its checkpoint, once; and its end, in time or
  // not.
  void SaveHeld(uint64_t hold);
  void EndHold(uint64_t hold, const absl::Status& status);
  void EndLateHold(uint64_t waiter);
  void SaveIfAsked();
  void OnRoundsHeld(const absl::Status& status);
  void OnHeld(const Saving& saving, absl::StatusOr<ShardTransfer::Held> held);
  void OnSaved(const Saving& saving, const absl::StatusOr<std::vector<proto::SavedSlice>>& saved);
  bool IsPresent(const Saving& saving) const;
  void EndSave(const absl::Status& status);
  // Saves later, because a ps was away: it is asked again, or found to be lost.
  void SaveLater();
  void Recover(const absl::Status& cause);
  void OnClaimed(uint64_t round, absl::StatusOr<uint64_t> epoch);
  void CreateVariables(uint64_t round);
  void Restore(uint64_t round);
  void OnRestored(uint64_t round, const absl::Status& status);
  void StopFor(const absl::Status& why);
  // Ends the job with the error.
  void GiveUp(const absl::Status& error);
  // Tries again if a ps was at fault, or with an older checkpoint; else the job ends.
  void Retry(uint64_t round, const absl::Status& status);
  // Takes the next of `older_` in the place of a damaged one. False: there is none.
  bool TakeOlder(const absl::Status& damage);
  proto::CoordinatorState MakeState(const Cut& cut) const;
  // Adds what the last state leaves open. A program that resumes gives the ids of the last state
  // again, one after another: those that it has not come to stay as that state has them.
  Cut WithWhatIsLeft(Cut cut) const;

  const World world_;
  const Options options_;
  const std::shared_ptr<Cluster> cluster_;         // shared with the coordinator
  const std::shared_ptr<Scheduler> scheduler_;     // shared with the coordinator
  const std::shared_ptr<ShardTransfer> transfer_;  // shared with what is under way
  Strand strand_;
  // Used on the strand alone.
  Phase phase_ = Phase::kWatching;
  uint64_t round_ = 0;  // counts recoveries: what a former round still answers is ignored
  RecoveryStore store_;
  ApplicationState application_;
  std::map<std::string, proto::VariableLayout> variables_;
  RecoveryStore::Committed committed_;  // without a prefix: the initial values
  uint64_t saves_begun_ = 0;
  std::set<int> savers_;      // for mirrored variables, those of the save under way
  std::vector<Done> asked_;   // wait for a checkpoint that has not begun
  std::vector<Done> saving_;  // wait for the one that is under way
  uint64_t hold_ = 0;         // counts the times that closures were held back
  uint64_t held_ = 0;         // the last one whose checkpoint was asked for
  uint64_t last_waiter_ = 0;
  std::map<uint64_t, Done> on_held_;             // wait for that of the last one
  int holders_ = 0;                              // CheckpointAndHold without Release
  bool adopted_ = false;                         // what an earlier coordinator left, or the start
  Adopted adopting_;                             // null: nobody waits
  std::vector<RecoveryStore::Committed> older_;  // than committed_, newest first; while adopting
  absl::Status damage_;                          // that of the newest checkpoint that was left
  absl::Time recovering_since_;
  int failed_restores_ = 0;  // failures in a row that no lost ps explains
  absl::Status stopped_;     // why, in that phase
};

}  // namespace cohort
