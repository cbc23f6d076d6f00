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
  // The calling thread has a scope, which is empty. False: it had one before.
  bool Enter();
  void Leave(std::thread::id thread);

  // What the calling thread's scope has of the variable. Without that, what `read` gives, which a
  // scope keeps.
  absl::StatusOr<Tensor> Read(const std::string& variable,
                              absl::FunctionRef<absl::StatusOr<Tensor>()> read);

 private:
  using Values = std::map<std::string, Tensor>;  // by variable
  Mutex mutex_;
  std::map<std::thread::id, Values> scopes_ ABSL_GUARDED_BY(mutex_);
};

// Thread-safe.
class ClusterCoordinator {
 public:
  using Options = ClusterCoordinatorOptions;

  // Attaches every ps and at least workers.min workers; late workers join when they come. Errors:
  // INVALID_ARGUMENT without a home or a worker, or with workers outside the limits;
  // DEADLINE_EXCEEDED that says who does not answer, and why; FAILED_PRECONDITION of class
  // CONFIGURATION naming another job that lives on the tasks.
  static absl::StatusOr<std::unique_ptr<ClusterCoordinator>> Connect(World world, Waiter& waiter,
                                                                     Options options);
  // Connect in two steps, for who may have to Abort it while it waits. Nothing else may be called
  // in between.
  static absl::StatusOr<std::unique_ptr<ClusterCoordinator>> Create(World world, Waiter& waiter,
                                                                    Options options);
  absl::Status WaitForCluster();
  ~ClusterCoordinator();

  VariableScope Scope(proto::UpdateRule rule);
  // Of a plan. Errors: RESOURCE_EXHAUSTED (CONFIGURATION) naming the homes without the memory.
  absl::Status CreateVariables(absl::Span<const proto::VariableLayout> layouts);
  absl::StatusOr<Tensor> Read(const Variable& variable);  // or from a scope (caching_scope.h)
  // Strategy.experimental_local_results: each replica's value, where each has its own.
  absl::StatusOr<std::vector<Tensor>> LocalResults(const Variable& variable);
  absl::Status Assign(const Variable& variable, const Tensor& value);
  // Is in the variable once when this returns, whatever was lost meanwhile (sharded_variable.h).
  absl::Status Change(const Variable& variable, const VariableChange& change);

  // Errors: INVALID_ARGUMENT for a program bound to a variable that was not created.
  absl::StatusOr<ProgramHandle> Register(const proto::Program& program);
  DatasetHandle CreatePerWorkerDataset(proto::DatasetSpec spec);
  IteratorHandle MakeIterator(const DatasetHandle& dataset);
  // Length and type of the elements, as all workers that serve say, and those that come later have
  // to find. Errors: INVALID_ARGUMENT naming two workers that read different data; what a worker
  // answers (a missing file); UNAVAILABLE when no worker has answered within connect_timeout.
  absl::StatusOr<proto::CreateDatasetResponse> DescribeDataset(const DatasetHandle& dataset);

  // What the strategy plans for: the tasks, and where it takes all devices what workers say that
  // they have, which takes until all workers have answered. Errors: those of AskForDevices.
  absl::StatusOr<ClusterShape> ShapeFor(const Strategy& strategy);

  // Blocks while the queue is full or a Join waits. Errors: INVALID_ARGUMENT for a program, data
  // set or iterator that is null or another coordinator's, and for an argument without value
  // (nothing is scheduled); the first error of an earlier closure (this closure is then cancelled);
  // DEADLINE_EXCEEDED saying what is waited for (nothing is scheduled).
  absl::StatusOr<RemoteValue> Schedule(const ProgramHandle& program, ScheduleOptions options);
  // Until every closure has ended. Errors: the first error of a closure; DEADLINE_EXCEEDED saying
  // what is waited for.
  absl::Status Join(absl::Duration timeout = absl::InfiniteDuration());
  // Whether every closure has ended; waits only while some end after an error. Errors: as Join.
  absl::StatusOr<bool> Done(absl::Duration timeout = absl::InfiniteDuration());
  absl::StatusOr<FetchedTensors> Fetch(const RemoteValue& value,
                                       absl::Duration timeout = absl::InfiniteDuration());
  // With a recovery directory: once, after the variables were created and before the first
  // Schedule. Every ps is put back to the last whole checkpoint that an earlier coordinator of this
  // job left, or to initial values, and the next closure gets the first id that it does not cover.
  // Schedule what it leaves open anew under its ids; SkipTo passes over the others. Nothing without
  // one. Errors: DATA_LOSS naming the file; FAILED_PRECONDITION for another job's state.
  absl::StatusOr<std::optional<proto::CoordinatorState>> ResumeState();
  // What that is, and nothing is done about it. Errors: DATA_LOSS naming the file.
  absl::StatusOr<std::optional<proto::CoordinatorState>> LeftState() const;
  void SkipTo(ClosureId next) { scheduler_->SkipTo(next); }  // of the next closure; only grows
  ClosureId NextId() const { return scheduler_->NextId(); }
  // Saved with each recovery checkpoint. Runs on another thread.
  void SetApplicationState(Recovery::ApplicationState state);
  // Returns when all that is done now is durable. Nothing to do without a recovery directory.
  absl::Status MakeDurable();
  // The job has ended well: removes what was kept for its recovery. Errors: of class STALE when
  // another coordinator has taken over, which goes on from that.
  absl::Status ForgetState();

  // Fails the job from outside: the next or waiting Schedule, Join or Done gets `reason`, and so
  // does, at once, whatever waits for a task that is away.
  void Abort(const absl::Status& reason);
  // For a process that has to end: as Recovery::CheckpointAndHold. False, and nothing happens,
  // where there is no recovery, or no ResumeState yet.
  bool CheckpointAndHold(absl::Duration patience, Recovery::Done done);

  // At the end: asks all tasks that serve to end, or leaves them to any job. Errors: of class STALE
  // when another coordinator has taken over; then no task is told anything (leave_tasks.h).
  absl::Status Leave(Farewell farewell);

  PsControl& ps() { return *ps_; }
  Scheduler::Stats stats() const { return scheduler_->stats(); }
  const ClusterSpec& cluster() const { return options_.cluster; }
  std::string ClusterReport() const { return cluster_->Report(); }
  // For who adds and removes workers, and shows how they do (coordinator/members).
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
  // Who made a handle: this coordinator, through all its epochs.
  uint64_t owner() const { return cluster_->self().incarnation; }
  absl::Status WaitFor(absl::string_view what, absl::FunctionRef<void(Recovery::Done)> start);
  // Until the scheduler runs the completion that `start` gives it, or the time is over.
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
  uint32_t next_slice_id_ ABSL_GUARDED_BY(mutex_) = 0;  // of a variable made in a scope
  std::map<std::string, proto::VariableLayout> layouts_ ABSL_GUARDED_BY(mutex_);
  uint64_t last_resource_id_ ABSL_GUARDED_BY(mutex_) = 0;
  Mutex change_mutex_;
  ReadCache read_cache_;
};

}  // namespace cohort
