#pragma once

// The coordinator's C++ API, under the names of tf.distribute.coordinator.ClusterCoordinator. The
// coordinator connects to the tasks of a cluster, makes variables on the parameter servers inside a
// scope, gives workers programs and data sets, and schedules each closure onto a worker with free
// slots. Schedule, Join and Fetch block the calling thread:
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
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "common/base/event.h"
#include "common/base/mutex.h"
#include "common/checkpoint/bundle.h"
#include "common/tensor/tensor.h"
#include "common/wire/world.h"
#include "coordinator/api/coordinator_options.h"
#include "coordinator/api/home_memory.h"
#include "coordinator/api/variable.h"
#include "coordinator/cluster/ask_workers.h"
#include "coordinator/cluster/cluster.h"
#include "coordinator/homes/ps_control.h"
#include "coordinator/recovery/copies.h"
#include "coordinator/recovery/recovery.h"
#include "coordinator/schedule/scheduler.h"
#include "coordinator/strategy/strategy.h"
#include "coordinator/strategy/variable_creator.h"

namespace cohort {

class ClusterCoordinator;

// A scope whose new variables live on the parameter servers. Each variable is placed by the
// coordinator's placement policy (strategy/placement.h); colocated variables are never partitioned.
// Thread-compatible; the coordinator outlives it.
class VariableScope {
 public:
  // Creates a variable on its homes. Errors: INVALID_ARGUMENT for a bad specification of the
  // variable (variable_creator.h); errors that the parameter servers answer.
  absl::StatusOr<Variable> CreateVariable(const VariableSpec& spec);
  // Returns a scope whose new variables live on the same parameter servers as `variable`.
  VariableScope ColocateVarsWith(const Variable& variable) const;

 private:
  friend class ClusterCoordinator;
  VariableScope(ClusterCoordinator& coordinator, proto::UpdateRule rule)
      : coordinator_(coordinator), rule_(std::move(rule)) {}

  ClusterCoordinator& coordinator_;
  proto::UpdateRule rule_;
  VariableOptions options_;
};

// The values of variables that threads have read inside their caching scopes (CachingScope).
// Thread-safe.
class ReadCache {
 public:
  // Begins an empty caching scope for the calling thread. Returns false, and changes nothing, if
  // the thread already has a caching scope.
  bool Enter();
  void Leave(std::thread::id thread);

  // Returns the variable's value from the calling thread's caching scope. If the scope lacks the
  // value or the thread has no scope, calls `read` instead, and stores the value in the thread's
  // scope if there is one.
  absl::StatusOr<Tensor> Read(const std::string& variable,
                              absl::FunctionRef<absl::StatusOr<Tensor>()> read);

 private:
  using Values = std::map<std::string, Tensor>;  // tensors by variable name
  Mutex mutex_;
  std::map<std::thread::id, Values> scopes_ ABSL_GUARDED_BY(mutex_);
};

// A caching scope of one thread, with the meaning of TensorFlow's cache_variable_reads(). The scope
// lasts as long as this object. While the thread is inside the scope, each variable that it reads
// (ClusterCoordinator::Read, ShardedVariable::ConvertToTensor) is fetched from the parameter
// servers once. Later reads return the fetched value again, even if the variable has changed since.
// The cache does not serve reads of single rows or slices, nor reads by other threads. A new scope
// begins with an empty cache. Closures need no caching scope: a closure pulls each variable once,
// and all of its reads see the pulled value. The coordinator outlives the scope. Thread-compatible.
class CachingScope {
 public:
  // Begins a caching scope of the calling thread. Errors: INVALID_ARGUMENT if the thread is already
  // inside a caching scope, because caching scopes cannot be nested.
  static absl::StatusOr<std::unique_ptr<CachingScope>> Enter(ClusterCoordinator& coordinator);
  ~CachingScope();
  CachingScope(const CachingScope&) = delete;
  CachingScope& operator=(const CachingScope&) = delete;

 private:
  explicit CachingScope(ReadCache& cache) : cache_(cache), thread_(std::this_thread::get_id()) {}

  ReadCache& cache_;
  const std::thread::id thread_;
};

// The coordinator of one job, which connects to the job's tasks and schedules closures.
// Thread-safe.
class ClusterCoordinator {
 public:
  using Options = ClusterCoordinatorOptions;

  // Makes a coordinator, and attaches every ps and at least workers.min workers; further workers
  // are attached when they appear. Errors: INVALID_ARGUMENT for a cluster without a home of
  // variables or without a worker, or with a number of workers outside the limits;
  // DEADLINE_EXCEEDED naming the tasks that do not answer, and why; FAILED_PRECONDITION of class
  // CONFIGURATION naming another running job that holds the tasks.
  static absl::StatusOr<std::unique_ptr<ClusterCoordinator>> Connect(World world, Waiter& waiter,
                                                                     Options options);
  // Create() followed by WaitForCluster() does the same as Connect(), in two steps, so that another
  // thread can call Abort() while WaitForCluster() blocks. No other method may be called between
  // the two steps.
  static absl::StatusOr<std::unique_ptr<ClusterCoordinator>> Create(World world, Waiter& waiter,
                                                                    Options options);
  absl::Status WaitForCluster();
  ~ClusterCoordinator();

  VariableScope Scope(proto::UpdateRule rule);
  // Creates the variables of a strategy's plan on their homes. With a recovery directory, waits
  // until a recovery checkpoint contains the variables. Errors: RESOURCE_EXHAUSTED (CONFIGURATION)
  // naming the homes that have too little memory.
  absl::Status CreateVariables(absl::Span<const proto::VariableLayout> layouts);
  // Reads a variable's value from its homes or, inside a caching scope, from the cache.
  absl::StatusOr<Tensor> Read(const Variable& variable);
  // Returns the value of each replica if the variable has one value per replica; otherwise returns
  // the variable's only value. TensorFlow: Strategy.experimental_local_results.
  absl::StatusOr<std::vector<Tensor>> LocalResults(const Variable& variable);
  absl::Status Assign(const Variable& variable, const Tensor& value);
  // Changes the variable. When Change returns OK, the change has been made exactly once, even if
  // tasks were lost during the call (sharded_variable.h).
  absl::Status Change(const Variable& variable, const VariableChange& change);
  // Replaces the values of these variables by their moving averages, durably like Change. Errors:
  // those of PsControl::AssignAverages.
  absl::Status AssignAverages(absl::Span<const proto::VariableLayout> variables);

  // Registers a program, so that Schedule can run it. Errors: INVALID_ARGUMENT for a program that
  // reads or updates a variable that was not created.
  absl::StatusOr<ProgramHandle> Register(const proto::Program& program);
  DatasetHandle CreatePerWorkerDataset(proto::DatasetSpec spec);
  IteratorHandle MakeIterator(const DatasetHandle& dataset);
  // Asks all serving workers for the length of the data set and the type of its elements, which
  // must be the same on all of them. The answer also names the worker that was asked first and its
  // files. Workers that join later have to report the same before they get a closure that reads the
  // data set. Errors: INVALID_ARGUMENT naming two workers that read different data; a worker's own
  // error (such as a missing file); UNAVAILABLE if no worker has answered within connect_timeout.
  absl::StatusOr<proto::ExpectedData> DescribeDataset(const DatasetHandle& dataset);
  // Asks the workers that came after DescribeDataset for their data, and compares it with the
  // description. A worker that has joined and got no closure yet was not asked before. Errors:
  // those of DescribeDataset, except UNAVAILABLE; FAILED_PRECONDITION before DescribeDataset.
  absl::Status CompareDataset(const DatasetHandle& dataset);

  // Returns the cluster that the strategy plans for: the tasks and, if the strategy uses all
  // devices, the devices of the workers. To learn the devices, waits until every worker has named
  // its devices. Errors: those of AskForDevices.
  absl::StatusOr<ClusterShape> ShapeFor(const Strategy& strategy);

  // Schedules a closure and returns its future result. Blocks while the queue is full or while a
  // Join waits. Errors: INVALID_ARGUMENT as in CheckClosure (closure_check.h; nothing is
  // scheduled); the first error of an earlier closure (this closure is then cancelled);
  // DEADLINE_EXCEEDED if the queue has no room within queue_timeout (nothing is scheduled).
  absl::StatusOr<RemoteValue> Schedule(const ProgramHandle& program, ScheduleOptions options);
  // Waits until every closure has ended. Errors: the first error of a closure; DEADLINE_EXCEEDED
  // naming the closures and tasks that were waited for.
  absl::Status Join(absl::Duration timeout = absl::InfiniteDuration());
  // Returns whether every closure has ended. Waits only if a closure has failed: until the closures
  // in flight have ended. Errors: those of Join.
  absl::StatusOr<bool> Done(absl::Duration timeout = absl::InfiniteDuration());
  absl::StatusOr<FetchedTensors> Fetch(const RemoteValue& value,
                                       absl::Duration timeout = absl::InfiniteDuration());
  // Resumes the job from the recovery directory. Must be called once, after the variables were
  // created and before the first Schedule. Puts every ps back to the last whole checkpoint that an
  // earlier coordinator of this job left, or to initial values if there is none. The next closure
  // gets the lowest id that the checkpoint does not cover. The caller has to schedule again, under
  // their old ids, the closures that the checkpoint does not cover, and passes over covered ids
  // with SkipTo. Without a recovery directory, does nothing. Errors: DATA_LOSS naming the file;
  // FAILED_PRECONDITION for another job's state.
  absl::StatusOr<std::optional<proto::CoordinatorState>> ResumeState();
  // Returns the coordinator's state from which ResumeState would resume, or nothing if there is
  // none; changes nothing. Errors: DATA_LOSS naming the file; FAILED_PRECONDITION for another job's
  // state.
  absl::StatusOr<std::optional<proto::CoordinatorState>> LeftState() const;
  // Returns where the slices of the checkpoint begin from which ResumeState would resume; nothing
  // without one. The variables of a job that is to go on are cut there too (CutAt), whatever the
  // number of homes is now. Variables of a scope are cut there already. Errors: those of LeftState.
  absl::StatusOr<SliceStarts> LeftSlices() const;
  // Sets the id of the next closure. `next` must be larger than every id used so far.
  void SkipTo(ClosureId next) { scheduler_->SkipTo(next); }
  ClosureId NextId() const { return scheduler_->NextId(); }
  // Sets the function that returns the state of the program, which becomes a part of each recovery
  // checkpoint. The function is called on another thread.
  void SetApplicationState(Recovery::ApplicationState state);
  // Waits until a recovery checkpoint covers all closures and changes done so far. Without a
  // recovery directory, returns at once.
  absl::Status MakeDurable();
  // Begins a recovery checkpoint like MakeDurable, but does not wait for its end. A crash before
  // its end loses what only this checkpoint covers.
  void MakeDurableSoon();
  // Removes the recovery checkpoints of a job that has ended well. Errors: of class STALE if
  // another coordinator has taken over the job, which then still needs the checkpoints.
  absl::Status ForgetState();

  // Ask the homes whether this coordinator still holds the tasks. Called before files are written
  // or removed that another coordinator of the job, which may have taken over, has under the same
  // names. Errors: of class STALE if another coordinator has taken over; ConfirmHeld also fails,
  // with UNAVAILABLE, if no home answers.
  absl::Status CheckHeld();
  absl::Status ConfirmHeld();

  // Fails the job with `reason`. A waiting Schedule, Join or Done, or else the next one, returns
  // `reason`. Every wait for a lost task ends at once with `reason`.
  void Abort(const absl::Status& reason);
  // Fails the job like Abort, but does not wait for closures in flight: every wait for closures,
  // recovery checkpoints and lost tasks ends at once with `reason`. For a process that ends: what
  // the closures in flight still push counts until the next coordinator's epoch begins.
  void EndNow(const absl::Status& reason);
  // Takes a last checkpoint before the process ends, like Recovery::CheckpointAndHold. Takes no
  // checkpoint and returns false in three cases: without a recovery directory; before ResumeState;
  // in a new job with Options::has_application_state, before SetApplicationState.
  bool CheckpointAndHold(absl::Duration patience, Recovery::Done done);

  // Ends the coordinator's hold of the tasks at the end of a job: `farewell` says whether all
  // serving tasks are asked to end, or are left free for any job. Errors: of class STALE if another
  // coordinator has taken over the tasks; then no task is told anything (leave_tasks.h).
  absl::Status Leave(Farewell farewell) { return Leave(farewell, kFarewellTimeout); }
  // The same with another time limit for each call.
  absl::Status Leave(Farewell farewell, absl::Duration call_timeout);

  PsControl& ps() { return *ps_; }
  Scheduler::Stats stats() const { return scheduler_->stats(); }
  const ClusterSpec& cluster() const { return options_.cluster; }
  // Returns the directory of recovery checkpoints; empty if the job keeps none.
  const std::string& recovery_directory() const { return options_.recovery_directory; }
  std::string ClusterReport() const { return cluster_->Report(); }
  // Return the cluster and the scheduler. Used by coordinator/members, which adds and removes
  // workers and shows their state.
  const std::shared_ptr<Cluster>& members() const { return cluster_; }
  const std::shared_ptr<Scheduler>& scheduler() const { return scheduler_; }

 private:
  friend class VariableScope;
  friend class CachingScope;
  ClusterCoordinator(World world, Waiter& waiter, Options options);
  // Pointers to the cluster, the recovery and the copies, for callbacks that the scheduler and the
  // cluster were given before these parts existed. The pointers are set once the parts exist. They
  // are weak, so that no part keeps another one alive.
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
  DataQuestion QuestionAbout(const RegisteredDataset& dataset) const;
  // Returns the incarnation of this coordinator, by which it recognizes handles that it made. The
  // incarnation is the same in all epochs.
  uint64_t owner() const { return cluster_->self().incarnation; }
  absl::Status WaitFor(absl::string_view what, absl::FunctionRef<void(Recovery::Done)> start);
  // Calls `start`, and waits until the scheduler runs the completion that `start` got as its
  // argument, or until the timeout. `what` names the awaited event in the error text.
  absl::Status Wait(absl::Duration timeout, absl::string_view what,
                    absl::FunctionRef<WaitId(Scheduler::Done)> start);
  absl::StatusOr<Variable> CreateVariable(const VariableSpec& spec, const proto::UpdateRule& rule,
                                          const VariableOptions& options);
  // Makes a change, and makes it again as long as a recovery has begun before it was durable.
  // `change` may be repeated.
  absl::Status UntilDurable(absl::FunctionRef<absl::Status()> change);
  // Reads left_slices_ if it is not known yet.
  void FindLeftSlices();

  const World world_;
  Waiter& waiter_;
  const Options options_;
  // The memory of the variables' homes, as far as the homes reported it. Shared with the cluster's
  // callbacks.
  const std::shared_ptr<HomeMemory> memory_;
  // The scheduler of this coordinator, shared with the scheduler's calls in flight.
  std::shared_ptr<Scheduler> scheduler_;
  // The cluster of this coordinator, shared with the cluster's connections.
  std::shared_ptr<Cluster> cluster_;
  // The recovery of the job after the loss of a ps, shared with its own calls; null without a
  // recovery directory.
  std::shared_ptr<Recovery> recovery_;
  // Keeps the workers' copies of mirrored variables equal; shared with its own calls; null unless
  // variables are mirrored.
  std::shared_ptr<Copies> copies_;
  std::unique_ptr<PsControl> ps_;
  std::atomic<bool> resumed_{false};
  // True if a recovery checkpoint may be taken: the program has given its state, or the job was
  // resumed.
  std::atomic<bool> has_state_{false};
  Mutex mutex_;
  VariableCreator creator_ ABSL_GUARDED_BY(mutex_);
  // The result of LeftSlices() when the first variable was made in a scope.
  std::optional<SliceStarts> left_slices_ ABSL_GUARDED_BY(mutex_);
  // The next slice id of a variable made in a scope.
  uint32_t next_slice_id_ ABSL_GUARDED_BY(mutex_) = 0;
  std::map<std::string, proto::VariableLayout> layouts_ ABSL_GUARDED_BY(mutex_);
  uint64_t last_resource_id_ ABSL_GUARDED_BY(mutex_) = 0;
  // The answers of DescribeDataset, by data set id.
  std::map<uint64_t, DataOfWorkers> described_ ABSL_GUARDED_BY(mutex_);
  Mutex change_mutex_;
  ReadCache read_cache_;
};

}  // namespace cohort
