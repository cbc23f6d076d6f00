#pragma once

// Keeps a job alive when a parameter server or the coordinator itself is lost. The states:
//
//   watching --checkpoint is due--> saving --committed, or failed--> watching
//   any --a ps was lost--> claiming (every ps is waited for) --> restoring --> watching
//   any --another coordinator has taken over, or a restore is impossible--> stopped
//
// Saving: a cut is begun (redo_log.h), every ps freezes its slices, and the frozen slices are
// written while training goes on (shard_transfer.h). The index turns the files into one checkpoint;
// from then on every closure that the cut covers is durable.
//
// Restoring: the scheduler is paused and the next epoch claimed. Every ps, even one that was never
// lost, is restored to the last committed cut, or to the initial values. Then the closures that the
// cut does not cover run again.
//
// All state of this class is used on one strand, which also writes the files.

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

// Saves recovery checkpoints of a job, and restores the job from the last one after a loss.
// Thread-safe. Shared: calls and timers hold it.
class Recovery : public std::enable_shared_from_this<Recovery> {
 public:
  struct Options {
    std::string job;
    std::string directory;
    // The time from the end of one checkpoint to the beginning of the next.
    absl::Duration interval = absl::Seconds(10);
    absl::Duration call_timeout = absl::Seconds(60);
    // True: the program calls SetApplicationState before its first closure. Until then there is
    // nothing to save, and a checkpoint that is asked for waits, unless an earlier coordinator has
    // left one, whose state still holds.
    bool has_application_state = false;
    // Tell that a recovery begins, or begins again after a further loss, and that it has ended
    // well. The callbacks must not block.
    std::function<void()> on_recovering;
    std::function<void()> on_recovered;
  };
  using Done = absl::AnyInvocable<void(absl::Status)>;
  // Returns the state that the training loop needs to continue from a cut. Runs on the strand and
  // must not call this object.
  using ApplicationState = std::function<std::string(const Cut&)>;

  static std::shared_ptr<Recovery> Create(World world, Options options,
                                          std::shared_ptr<Cluster> cluster,
                                          std::shared_ptr<Scheduler> scheduler,
                                          std::shared_ptr<ShardTransfer> transfer);

  // Begins to take checkpoints at regular intervals.
  void Start();
  // Stops for good; every waiting callback gets CANCELLED.
  void Stop();

  void SetApplicationState(ApplicationState state);
  // Adds variables, which a restore must create on servers that have lost them. If there is a
  // checkpoint already, a new one is taken, and `done` runs when it contains the variables, because
  // the old one cannot restore them. Errors: as Checkpoint.
  void AddVariables(std::vector<proto::VariableLayout> layouts, Done done);

  void OnPsLost(const absl::Status& cause);
  // Notes that homes of mirrored variables are lost while other homes still have copies. If one of
  // these homes was writing a checkpoint, the checkpoint begins anew with another home.
  void OnHomesAway(const std::set<int>& homes, const absl::Status& cause);
  // Ends the job: closes the scheduler, and gives the error to every waiting callback.
  void EndJob(const absl::Status& error);
  // Takes a checkpoint that begins after this call and, if a recovery is under way, after the
  // recovery. Errors: those of the parameter servers and of files.
  void Checkpoint(Done done);
  // Waits at most `patience` until the closures in flight have ended, and takes a checkpoint. No
  // other closure begins until Release, or until a recovery has ended. `done` runs within twice
  // `patience`, so that a process that has to end can do so. If another call is waiting for its
  // checkpoint, this call shares it. Errors: as Checkpoint; UNAVAILABLE if the job waits for a
  // parameter server or has not begun (Options::has_application_state); DEADLINE_EXCEEDED.
  void CheckpointAndHold(absl::Duration patience, Done done);
  // Lets closures begin again after CheckpointAndHold. Must be called once for each
  // CheckpointAndHold, after its `done`; closures begin after the last of these calls.
  void Release();
  // Calls CheckpointAndHold and then Release, for a task that will end within `patience`. `let_go`
  // runs once, when the task may end.
  void SaveBeforeLeave(const std::string& task, absl::Duration patience,
                       absl::AnyInvocable<void()> let_go);
  // Restores every ps from the first whole checkpoint in `left`, the list of checkpoints that
  // earlier coordinators left, newest first. If the list is empty, restores the initial values.
  // Called before the first closure. `done` gets the coordinator's state in that checkpoint.
  // Errors: DATA_LOSS or NOT_FOUND naming the file of the newest checkpoint when none is whole.
  using Adopted = absl::AnyInvocable<void(absl::StatusOr<proto::CoordinatorState>)>;
  void Adopt(std::vector<RecoveryStore::Committed> left, Adopted done);
  // Removes all checkpoints because the job has ended. No checkpoint is taken afterwards.
  void Forget(Done done);

 private:
  enum class Phase { kWatching, kSaving, kRecovering, kStopped };
  // A checkpoint under way.
  struct Saving {
    uint64_t round = 0;
    uint64_t number = 0;  // value of saves_begun_ when the save began
    std::string prefix;
    proto::CoordinatorState state;
    Cut cut;
  };

  Recovery(World world, Options options, std::shared_ptr<Cluster> cluster,
           std::shared_ptr<Scheduler> scheduler, std::shared_ptr<ShardTransfer> transfer);
  void Post(absl::AnyInvocable<void()> task);
  void Tick();
  // The parts of CheckpointAndHold: SaveHeld requests the checkpoint, once; EndHold calls the
  // waiting callbacks with the result; EndLateHold ends one call that has waited too long.
  void SaveHeld(uint64_t hold);
  void EndHold(uint64_t hold, const absl::Status& status);
  void EndLateHold(uint64_t waiter);
  void SaveIfAsked();
  // Returns whether a checkpoint could tell the program's state.
  bool HasState() const;
  void OnRoundsHeld(const absl::Status& status);
  void OnHeld(const Saving& saving, absl::StatusOr<ShardTransfer::Held> held);
  void OnSaved(const Saving& saving, const absl::StatusOr<std::vector<proto::SavedSlice>>& saved);
  bool IsPresent(const Saving& saving) const;
  void EndSave(const absl::Status& status);
  // Repeats the save after a short delay, because a ps did not answer. By then the ps answers, or
  // is known to be lost.
  void SaveLater();
  void Recover(const absl::Status& cause);
  void OnClaimed(uint64_t round, absl::StatusOr<uint64_t> epoch);
  void CreateVariables(uint64_t round);
  void Restore(uint64_t round);
  void OnRestored(uint64_t round, const absl::Status& status);
  void StopFor(const absl::Status& why);
  // Closes the scheduler with the error and stops this object for good.
  void GiveUp(const absl::Status& error);
  // Handles a failed recovery: repeats it if a ps was at fault, or uses an older checkpoint, or
  // ends the job.
  void Retry(uint64_t round, const absl::Status& status);
  // Takes the next checkpoint of `older_` in place of the damaged one. Returns false if there is
  // none.
  bool TakeOlder(const absl::Status& damage);
  proto::CoordinatorState MakeState(const Cut& cut) const;
  // Adds to a cut those closures that the last committed state leaves open and that the resumed
  // program has not yet scheduled again. The program schedules them again under their ids, one
  // after another; until then they must stay open.
  Cut WithWhatIsLeft(Cut cut) const;

  const World world_;
  const Options options_;
  const std::shared_ptr<Cluster> cluster_;         // the cluster, shared with the coordinator
  const std::shared_ptr<Scheduler> scheduler_;     // the scheduler, shared with the coordinator
  const std::shared_ptr<ShardTransfer> transfer_;  // shared with the transfers under way
  Strand strand_;
  // The members below are used on the strand only.
  Phase phase_ = Phase::kWatching;
  // Counts recoveries. Answers to calls of an earlier recovery are ignored.
  uint64_t round_ = 0;
  RecoveryStore store_;
  ApplicationState application_;
  std::map<std::string, proto::VariableLayout> variables_;
  RecoveryStore::Committed committed_;  // the last checkpoint; without a prefix: the initial values
  uint64_t saves_begun_ = 0;
  // The homes that write the save under way, which OnHomesAway compares with lost homes.
  std::set<int> savers_;
  std::vector<Done> asked_;   // callbacks for the next checkpoint, which has not begun
  std::vector<Done> saving_;  // callbacks for the checkpoint under way
  uint64_t hold_ = 0;         // number of the last checkpoint taken for CheckpointAndHold calls
  uint64_t held_ = 0;         // the last hold_ for which SaveHeld has requested a checkpoint
  uint64_t last_waiter_ = 0;
  std::map<uint64_t, Done> on_held_;  // callbacks of CheckpointAndHold that wait now
  int holders_ = 0;                   // calls of CheckpointAndHold not yet followed by Release
  // True: Adopt has restored the ps to the state that an earlier coordinator left, or to the
  // initial state.
  bool adopted_ = false;
  Adopted adopting_;  // the callback of Adopt; null: Adopt is not under way
  // Checkpoints older than committed_, newest first, for Adopt to fall back on; empty after Adopt.
  std::vector<RecoveryStore::Committed> older_;
  // The error of the newest checkpoint that an earlier coordinator left.
  absl::Status damage_;
  absl::Time recovering_since_;
  // Number of consecutive failed restores that were not caused by a lost ps.
  int failed_restores_ = 0;
  absl::Status stopped_;  // the error because of which the phase is kStopped
};

}  // namespace cohort
