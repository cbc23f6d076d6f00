#pragma once

// The coordinator's C++ API, under the names of tf.distribute.coordinator.ClusterCoordinator. It
// connects to the tasks of a cluster, makes variables on the parameter servers inside a scope,
// gives workers programs and data sets, and schedules closures onto whichever worker is free. Its
// Schedule, Join and Fetch block on the waiter:
//
//   auto coordinator = ClusterCoordinator::Connect(world, waiter, options);
//   auto scope = coordinator->Scope(optimizer_rule);
//   Variable w = scope.CreateVariable(...);
//   auto step = coordinator->Register(program);
//   RemoteValue loss = coordinator->Schedule(step, {.input = iterator, .learning_rate = 0.1});
//   coordinator->Join();
//   coordinator->Fetch(loss);

#include <atomic>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "common/base/event.h"
#include "common/base/mutex.h"
#include "common/tensor/tensor.h"
#include "common/wire/world.h"
#include "coordinator/api/coordinator_options.h"
#include "coordinator/api/home_memory.h"
#include "coordinator/api/schedule_options.h"
#include "coordinator/api/variable.h"
#include "coordinator/api/variable_scope.h"
#include "coordinator/cluster/cluster.h"
#include "coordinator/homes/ps_control.h"
#include "coordinator/recovery/copies.h"
#include "coordinator/recovery/recovery.h"
#include "coordinator/schedule/scheduler.h"
#include "coordinator/strategy/strategy.h"
#include "coordinator/strategy/variable_creator.h"

namespace cohort {

// Values of variables that threads inside a caching scope (caching_scope.h) have read.
// Thread-safe.
class ReadCache {
 public:
  // Begins an empty scope of the calling thread. Returns false if the thread had one before.
  bool Enter();
  void Leave(std::thread::id thread);

  // Returns the variable's value in the calling thread's scope or, if it has none, the result of
  // `read`, which a scope keeps.
  absl::StatusOr<Tensor> Read(const std::string& variable,
                              absl::FunctionRef<absl::StatusOr<Tensor>()> read);

 private:
  using Values = std::map<std::string, Tensor>;  // keyed by variable
  Mutex mutex_;
  std::map<std::thread::id, Values> scopes_ ABSL_GUARDED_BY(mutex_);
};

// Thread-safe.
class ClusterCoordinator {
 public:
  using Options = ClusterCoordinatorOptions;

  // Attaches every ps and at least workers.min workers; late workers join when they come. Errors:
  // INVALID_ARGUMENT without a home or a worker, or with workers outside the limits;
  // DEADLINE_EXCEEDED naming the tasks that do not answer, and why; FAILED_PRECONDITION of class
  // CONFIGURATION naming another job that lives on the tasks.
  static absl::StatusOr<std::unique_ptr<ClusterCoordinator>> Connect(World world, Waiter& waiter,
                                                                     Options options);
  // Connects in two steps, so that another thread can call Abort() while WaitForCluster() blocks.
  // Nothing else may be called in between.
  static absl::StatusOr<std::unique_ptr<ClusterCoordinator>> Create(World world, Waiter& waiter,
                                                                    Options options);
  absl::Status WaitForCluster();
  ~ClusterCoordinator();

  VariableScope Scope(proto::UpdateRule rule);
  // Creates the variables of a plan. Errors: RESOURCE_EXHAUSTED (CONFIGURATION) naming the homes
  // without the memory.
  absl::Status CreateVariables(absl::Span<const proto::VariableLayout> layouts);
  absl::StatusOr<Tensor> Read(const Variable& variable);  // or from a scope (caching_scope.h)
  // Returns each replica's value, if each has its own. TensorFlow:
  // Strategy.experimental_local_results.
  absl::StatusOr<std::vector<Tensor>> LocalResults(const Variable& variable);
  absl::Status Assign(const Variable& variable, const Tensor& value);
  // Changes the variable. The change is made exactly once when this returns, whatever was lost
  // meanwhile (sharded_variable.h).
  absl::Status Change(const Variable& variable, const VariableChange& change);

  // Errors: INVALID_ARGUMENT for a program bound to a variable that was not created.
  absl::StatusOr<ProgramHandle> Register(const proto::Program& program);
  DatasetHandle CreatePerWorkerDataset(proto::DatasetSpec spec);
  IteratorHandle MakeIterator(const DatasetHandle& dataset);
  // Returns length and type of the elements, as all serving workers report them; later ones have to
  // find the same. Errors: INVALID_ARGUMENT naming two workers that read different data; a worker's
  // own error (a missing file); UNAVAILABLE if no worker has answered within connect_timeout.
  absl::StatusOr<proto::CreateDatasetResponse> DescribeDataset(const DatasetHandle& dataset);

  // Returns what the strategy plans for: the tasks and, if it takes all devices, the devices of the
  // workers, which takes until all workers have answered. Errors: those of AskForDevices.
  absl::StatusOr<ClusterShape> ShapeFor(const Strategy& strategy);

  // Blocks while the queue is full or a Join waits. Errors: INVALID_ARGUMENT for a program, data
  // set or iterator that is null or another coordinator's, and for an argument without value
  // (nothing is scheduled); the first error of an earlier closure (this closure is then cancelled);
  // DEADLINE_EXCEEDED saying what is waited for (nothing is scheduled).
  absl::StatusOr<RemoteValue> Schedule(const ProgramHandle& program, ScheduleOptions options);
  // Waits until every closure has ended. Errors: the first error of a closure; DEADLINE_EXCEEDED
  // saying what is waited for.
  absl::Status Join(absl::Duration timeout = absl::InfiniteDuration());
  // Returns whether every closure has ended; waits only while some end after an error. Errors:
  // those of Join.
  absl::StatusOr<bool> Done(absl::Duration timeout = absl::InfiniteDuration());
  absl::StatusOr<FetchedTensors> Fetch(const RemoteValue& value,
                                       absl::Duration timeout = absl::InfiniteDuration());
  // Resumes from the recovery directory, once, after the variables were created and before the
  // first Schedule. Every ps goes back to the last whole checkpoint that an earlier coordinator of
  // this job left, or to initial values, and the next closure gets the first id that the checkpoint
  // does not cover. Schedule what it leaves open anew under its ids; SkipTo passes over the others.
  // Does nothing without a recovery directory. Errors: DATA_LOSS naming the file;
  // FAILED_PRECONDITION for another job's state.
  absl::StatusOr<std::optional<proto::CoordinatorState>> ResumeState();
  // Returns the state that ResumeState would resume from, and changes nothing. Errors: DATA_LOSS
  // naming the file.
  absl::StatusOr<std::optional<proto::CoordinatorState>> LeftState() const;
  void SkipTo(ClosureId next) { scheduler_->SkipTo(next); }  // of the next closure; only grows
  ClosureId NextId() const { return scheduler_->NextId(); }
  // Sets the function whose result is saved with each recovery checkpoint. It runs on another
  // thread.
  void SetApplicationState(Recovery::ApplicationState state);
  // Returns when all that is done now is durable. Nothing to do without a recovery directory.
  absl::Status MakeDurable();
  // Removes what was kept for the job's recovery, once the job has ended well. Errors: of class
  // STALE if another coordinator has taken over, which goes on from that.
  absl::Status ForgetState();

  // Fails the job from outside: the next or waiting Schedule, Join or Done gets `reason`, and so
  // does, at once, whatever waits for a task that is away.
  void Abort(const absl::Status& reason);
  // Takes a last checkpoint for a process that has to end, like Recovery::CheckpointAndHold.
  // Returns false, and does nothing, without recovery and before ResumeState.
  bool CheckpointAndHold(absl::Duration patience, Recovery::Done done);

  // Asks all serving tasks to end, or leaves them to any job. Called at the end. Errors: of class
  // STALE if another coordinator has taken over; then no task is told anything (leave_tasks.h).
  absl::Status Leave(Farewell farewell);

  PsControl& ps() { return *ps_; }
  Scheduler::Stats stats() const { return scheduler_->stats(); }
  const ClusterSpec& cluster() const { return options_.cluster; }
  std::string ClusterReport() const { return cluster_->Report(); }
  // Return the parts for code that adds and removes workers, and shows their state
  // (coordinator/members).
  const std::shared_ptr<Cluster>& members() const { return cluster_; }
  const std::shared_ptr<Scheduler>& scheduler() const { return scheduler_; }

 private:
  friend class VariableScope;
  friend class CachingScope;
  ClusterCoordinator(World world, Waiter& waiter, Options options);
  // Whom scheduler and cluster call. Weak, filled in when made: none of the three keeps another.
  struct Parts {
    std::weak_ptr<Cluster> cluster;
    std::weak_ptr<Recovery> recovery;
    std::weak_ptr<Copies> copies;
  };
  void MakeCopies(const std::shared_ptr<Parts>& parts);
  Scheduler::Options SchedulerOptionsFor(const std::shared_ptr<const Parts>& parts) const;
  Cluster::Options ClusterOptionsFor(const std::shared_ptr<const Parts>& parts) const;
  void ListenToTasks(const std::shared_ptr<const Parts>& parts, Cluster::Options& options) const;
  absl::StatusOr<RecoveryStore::Left> ReadLeft() const;
  // Returns the maker of this coordinator's handles, the same through all its epochs.
  uint64_t owner() const { return cluster_->self().incarnation; }
  absl::Status WaitFor(absl::string_view what, absl::FunctionRef<void(Recovery::Done)> start);
  // Waits until the scheduler runs the completion that `start` gives it, or the time is over.
  absl::Status Wait(absl::Duration timeout, absl::string_view what,
                    absl::FunctionRef<WaitId(Scheduler::Done)> start);
  absl::StatusOr<Variable> CreateVariable(const VariableSpec& spec, const proto::UpdateRule& rule,
                                          const VariableOptions& options);

  const World world_;
  Waiter& waiter_;
  const Options options_;
  const std::shared_ptr<HomeMemory> memory_;  // shared with the cluster's callbacks
  std::shared_ptr<Scheduler> scheduler_;      // shared with calls in flight
  std::shared_ptr<Cluster> cluster_;          // shared with its connections
  std::shared_ptr<Recovery> recovery_;        // shared with its calls; none without a directory
  std::shared_ptr<Copies> copies_;            // shared with its calls; none unless mirrored
  std::unique_ptr<PsControl> ps_;
  std::atomic<bool> resumed_{false};
  Mutex mutex_;
  VariableCreator creator_ ABSL_GUARDED_BY(mutex_);
  uint32_t next_slice_id_ ABSL_GUARDED_BY(mutex_) = 0;  // for variables made in a scope
  std::map<std::string, proto::VariableLayout> layouts_ ABSL_GUARDED_BY(mutex_);
  uint64_t last_resource_id_ ABSL_GUARDED_BY(mutex_) = 0;
  Mutex change_mutex_;
  ReadCache read_cache_;
};

}  // namespace cohort
