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

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "common/base/event.h"
#include "common/checkpoint/bundle.h"
#include "common/preprocessing/column_statistics.h"
#include "common/tensor/tensor.h"
#include "common/wire/world.h"
#include "coordinator/api/coordinator_options.h"
#include "coordinator/api/variable.h"
#include "coordinator/cluster/farewell.h"
#include "coordinator/homes/variable_change.h"
#include "coordinator/layers/variable_spec.h"
#include "coordinator/schedule/cut.h"
#include "coordinator/schedule/remote_value.h"
#include "coordinator/schedule/scheduler_stats.h"
#include "proto/plan.pb.h"
#include "proto/program.pb.h"
#include "proto/recovery.pb.h"
#include "proto/worker.pb.h"

namespace cohort {

struct CoordinatorImpl;  // coordinator/api/coordinator_impl.h
class ClusterCoordinator;
struct ClusterShape;      // coordinator/strategy/strategy.h
struct CoordinatorParts;  // coordinator/api/coordinator_parts.h
class ReadCache;
class Strategy;  // coordinator/strategy/strategy.h

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
  // The name of the variable whose parameter servers the new variables get too. If empty, the
  // placement policy chooses.
  std::string colocate_with_;
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
  // A function of the program. It returns the state that the program needs to continue from a cut.
  // It must not call the coordinator.
  using ApplicationState = std::function<std::string(const Cut&)>;

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
  // INVALID_ARGUMENT if a variable has no moving average; errors that the parameter servers answer.
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
  // Lets the workers read the first `examples` examples of the source of a data set, whose last
  // transform is Adapt, and returns the statistics in Adapt's order. They do not depend on the
  // number of workers. Errors: those of AskForStatistics (coordinator/cluster/ask_statistics.h).
  absl::StatusOr<std::vector<ColumnStatistics>> GatherStatistics(const DatasetHandle& dataset,
                                                                 int64_t examples);
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
  // Returns the coordinator's state from which ResumeState would resume, or nullopt if there is
  // none; changes nothing. Errors: DATA_LOSS naming the file; FAILED_PRECONDITION for another job's
  // state.
  absl::StatusOr<std::optional<proto::CoordinatorState>> LeftState() const;
  // Returns where the slices of the checkpoint begin from which ResumeState would resume; nothing
  // without one. The variables of a job that is to go on are cut there too (CutAt), whatever the
  // number of homes is now. Variables of a scope are cut there already. Errors: those of LeftState.
  absl::StatusOr<SliceStarts> LeftSlices() const;
  // Sets the id of the next closure. `next` must be larger than every id used so far.
  void SkipTo(ClosureId next);
  ClosureId NextId() const;
  // Sets the function that returns the state of the program, which becomes a part of each recovery
  // checkpoint. The function is called on another thread.
  void SetApplicationState(ApplicationState state);
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
  // Takes a last checkpoint before the process ends. Waits until no closure is in flight, but at
  // most for `patience`; from then on, no closure begins until a recovery has ended. `done` is
  // called within twice `patience`. Takes no checkpoint and returns false in three cases: without a
  // recovery directory; before ResumeState; in a new job with Options::has_application_state,
  // before SetApplicationState. Errors: those of files and of parameter servers; UNAVAILABLE if the
  // job waits for a lost task; DEADLINE_EXCEEDED.
  bool CheckpointAndHold(absl::Duration patience, absl::AnyInvocable<void(absl::Status)> done);

  // Ends the coordinator's hold of the tasks at the end of a job: `farewell` says whether all
  // serving tasks are asked to end, or are left free for any job. Errors: of class STALE if another
  // coordinator has taken over the tasks; then no task is told anything.
  absl::Status Leave(Farewell farewell) { return Leave(farewell, kFarewellTimeout); }
  // The same with another time limit for each call.
  absl::Status Leave(Farewell farewell, absl::Duration call_timeout);

  SchedulerStats stats() const;
  const ClusterSpec& cluster() const;
  // Returns the directory of recovery checkpoints; empty if the job keeps none.
  const std::string& recovery_directory() const;
  std::string ClusterReport() const;
  // Returns the scheduler, the cluster and the other parts that do the work. Used by the
  // coordinator's own rooms (train, daemon) and by tests. Programs have no need of the parts, and
  // the header of the parts is not installed.
  const CoordinatorParts& parts() const;

 private:
  friend class VariableScope;
  friend class CachingScope;
  explicit ClusterCoordinator(std::unique_ptr<CoordinatorImpl> impl);

  const std::unique_ptr<CoordinatorImpl> impl_;
};

}  // namespace cohort
