#pragma once

// Keeps a job alive when a parameter server or the coordinator itself is lost. The states:
//
//   watching --checkpoint is due--> saving --committed, or failed--> watching
//   any --a ps was lost--> claiming (every ps is waited for) --> restoring --> watching
//   any --another coordinator has taken over, or a restore is impossible--> stopped
//
// Saving: a cut begins (redo_log.h), every ps freezes its slices, and the frozen slices are written
// while training goes on (shard_transfer.h). The index, which is written last, turns the files into
// one checkpoint. From then on every closure that the cut covers is durable.
//
// Restoring: the scheduler is paused and the next epoch is claimed. Every ps, even one that was
// never lost, is restored to the last committed checkpoint, or to the initial values. Then the
// closures that the checkpoint does not cover run again.
//
// All state of this class is used on one strand. The strand also writes the files.

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

// Saves recovery checkpoints of a job, and restores the job from the last one after a loss. Calls
// and timers share ownership of it. Thread-safe.
class Recovery : public std::enable_shared_from_this<Recovery> {
 public:
  struct Options {
    std::string job;
    std::string directory;
    // The interval at which checkpoints begin. None begins if no closure was done since the last
    // one.
    absl::Duration interval = absl::Seconds(10);
    absl::Duration call_timeout = absl::Seconds(60);
    // If true, the program calls SetApplicationState before its first closure. Before that call
    // there is nothing to save, and a checkpoint that was asked for waits. It does not wait if an
    // earlier coordinator has left a checkpoint, because the program's state in that checkpoint is
    // still right.
    bool has_application_state = false;
    // on_recovering is called when a recovery begins, and again if it begins anew after a further
    // loss. on_recovered is called when a recovery has ended well. Both must not block.
    std::function<void()> on_recovering;
    std::function<void()> on_recovered;
  };
  using Done = absl::AnyInvocable<void(absl::Status)>;
  // A function of the program. It returns the state that the program needs to continue from a cut.
  // Runs on the strand and must not call this object.
  using ApplicationState = std::function<std::string(const Cut&)>;

  static std::shared_ptr<Recovery> Create(World world, Options options,
                                          std::shared_ptr<Cluster> cluster,
                                          std::shared_ptr<Scheduler> scheduler,
                                          std::shared_ptr<ShardTransfer> transfer);

  // Begins to take recovery checkpoints at regular intervals (Options::interval).
  void Start();
  // Stops this object for good. Every waiting callback gets CANCELLED.
  void Stop();

  void SetApplicationState(ApplicationState state);
  // Adds variables. A restore creates them on servers that have lost them. If there is a checkpoint
  // already, takes a new one that contains the variables, and then calls `done`: the older
  // checkpoint could not restore the variables. Errors: as Checkpoint.
  void AddVariables(std::vector<proto::VariableLayout> layouts, Done done);

  void OnPsLost(const absl::Status& cause);
  // Notes that homes of mirrored variables are lost while other homes still have copies. If one of
  // the lost homes was writing a checkpoint, the checkpoint is taken anew from another home.
  void OnHomesAway(const std::set<int>& homes, const absl::Status& cause);
  // Ends the job: closes the scheduler, and gives `error` to every waiting callback.
  void EndJob(const absl::Status& error);
  // Takes a checkpoint that begins after this call. If a recovery is under way, the checkpoint
  // begins after the recovery. Errors: those of the parameter servers and of files.
  void Checkpoint(Done done);
  // Waits until no closure is in flight, but at most for `patience`, and takes a checkpoint. No
  // further closure begins until Release, or until a recovery has ended. `done` is called within
  // twice `patience`, so that a process that has to end can end in time. If another call waits for
  // its checkpoint, this call shares it. Errors: as Checkpoint; UNAVAILABLE if the job waits for a
  // lost task, or has not begun (Options::has_application_state); DEADLINE_EXCEEDED.
  void CheckpointAndHold(absl::Duration patience, Done done);
  // Ends the effect of CheckpointAndHold. Must be called once for each CheckpointAndHold, after its
  // `done`. Once it has been called for all of them, closures begin again.
  void Release();
  // Calls CheckpointAndHold and then Release, for a task that has to end within `patience`. Calls
  // `let_go` once, when the task may end.
  void SaveBeforeLeave(const std::string& task, absl::Duration patience,
                       absl::AnyInvocable<void()> let_go);
  // Restores every ps from the first whole checkpoint in `left`, which lists the checkpoints of
  // earlier coordinators, newest first. If the list is empty, restores the initial values. Must be
  // called before the first closure. `done` gets the coordinator's state in the restored
  // checkpoint. Errors: DATA_LOSS or NOT_FOUND naming the file of the newest checkpoint, if none is
  // whole.
  using Adopted = absl::AnyInvocable<void(absl::StatusOr<proto::CoordinatorState>)>;
  void Adopt(std::vector<RecoveryStore::Committed> left, Adopted done);
  // Removes all checkpoints, because the job has ended. No checkpoint is taken afterwards.
  void Forget(Done done);

 private:
  enum class Phase { kWatching, kSaving, kRecovering, kStopped };
  // A save of a recovery checkpoint that is under way.
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
  // Parts of CheckpointAndHold. SaveHeld requests the checkpoint, once. EndHold calls the waiting
  // callbacks with the result. EndLateHold ends a call that has waited too long.
  void SaveHeld(uint64_t hold);
  void EndHold(uint64_t hold, const absl::Status& status);
  void EndLateHold(uint64_t waiter);
  void SaveIfAsked();
  // Removes all checkpoints if Forget() was called and no save is being written.
  void ClearIfForgotten();
  // Returns whether a checkpoint could contain the program's state. Only then a checkpoint is
  // taken.
  bool HasState() const;
  void OnRoundsHeld(const absl::Status& status);
  void OnHeld(const Saving& saving, absl::StatusOr<ShardTransfer::Held> held);
  void OnSaved(const Saving& saving, const absl::StatusOr<std::vector<proto::SavedSlice>>& saved);
  bool IsPresent(const Saving& saving) const;
  void EndSave(const absl::Status& status);
  // Repeats the save after a short pause, because a ps did not answer. By then the ps answers, or
  // is known to be lost.
  void SaveLater();
  void Recover(const absl::Status& cause);
  void OnClaimed(uint64_t round, absl::StatusOr<uint64_t> epoch);
  void CreateVariables(uint64_t round);
  void Restore(uint64_t round);
  void OnRestored(uint64_t round, const absl::Status& status);
  void StopFor(const absl::Status& why);
  // Ends the job: closes the scheduler with the error, and stops this object for good.
  void GiveUp(const absl::Status& error);
  // Handles a failure during the recovery number `round`: begins the recovery anew, with an older
  // checkpoint if this one is damaged, or ends the job.
  void Retry(uint64_t round, const absl::Status& status);
  // Replaces the damaged checkpoint by the next older one. Returns false if there is none.
  bool TakeOlder(const absl::Status& damage);
  proto::CoordinatorState MakeState(const Cut& cut) const;
  // Returns `cut` with further open closures. These are the closures that the last committed state
  // lists as open and that the resumed program has not scheduled again yet. The program schedules
  // them again one after another, under their old ids; until then they must stay open.
  Cut WithWhatIsLeft(Cut cut) const;

  const World world_;
  const Options options_;
  const std::shared_ptr<Cluster> cluster_;      // the cluster, shared with the coordinator
  const std::shared_ptr<Scheduler> scheduler_;  // the scheduler, shared with the coordinator
  // The transfer of shards, shared with transfers under way.
  const std::shared_ptr<ShardTransfer> transfer_;
  Strand strand_;
  // The members below are used only on `strand_`, so by one thread at a time.
  Phase phase_ = Phase::kWatching;
  // The number of the latest recovery. Answers to calls of earlier recoveries are ignored.
  uint64_t round_ = 0;
  RecoveryStore store_;
  ApplicationState application_;
  std::map<std::string, proto::VariableLayout> variables_;
  // The last checkpoint, which a restore reads. If its prefix is empty, there is none, and a
  // restore gives the initial values.
  RecoveryStore::Committed committed_;
  uint64_t saves_begun_ = 0;
  // The homes whose shards make up the present save. OnHomesAway compares them with lost homes.
  std::set<int> savers_;
  std::vector<Done> asked_;   // callbacks that wait for a checkpoint that has not begun
  std::vector<Done> saving_;  // callbacks that wait for the checkpoint under way
  int writes_ = 0;            // number of saves whose shards are being written
  Done forgetting_;           // what Forget() calls when no save is being written
  uint64_t hold_ = 0;         // number of the latest checkpoint for CheckpointAndHold
  uint64_t held_ = 0;         // the hold_ for which SaveHeld was called last
  uint64_t last_waiter_ = 0;
  std::map<uint64_t, Done> on_held_;  // callbacks of CheckpointAndHold that wait
  int holders_ = 0;                   // calls of CheckpointAndHold without their Release
  // True once Adopt has restored the ps, to the state that an earlier coordinator left or to the
  // initial values.
  bool adopted_ = false;
  Adopted adopting_;  // the callback of Adopt while Adopt is under way, else null
  // The checkpoints that are older than committed_, newest first. Adopt uses them if committed_ is
  // damaged; after Adopt the list is empty.
  std::vector<RecoveryStore::Committed> older_;
  // The error of the newest checkpoint that an earlier coordinator left, if it is damaged.
  absl::Status damage_;
  absl::Time recovering_since_;
  // The number of failed restores in a row, not counting those that failed because a ps was lost.
  int failed_restores_ = 0;
  absl::Status stopped_;  // the error because of which the phase is kStopped
};

}  // namespace cohort
