#include "coordinator/api/cluster_coordinator.h"

#include <algorithm>
#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/log.h"
#include "common/base/mutex.h"
#include "common/base/status.h"
#include "common/program/aggregation.h"
#include "common/program/program.h"
#include "coordinator/api/closure_check.h"
#include "coordinator/api/coordinator_impl.h"
#include "coordinator/cluster/ask_statistics.h"
#include "coordinator/cluster/await.h"
#include "coordinator/cluster/leave_tasks.h"
#include "coordinator/strategy/strategy.h"

namespace cohort {

namespace {

// Checks the tasks of the cluster. There must be at least one ps if `homes`, the role that keeps
// variables, is ps, and no ps if it is worker. The number of workers must lie within `limits`, and
// must be 1 if variables live in a single worker.
absl::Status CheckCluster(const ClusterSpec& cluster, Role homes, bool mirrored,
                          const WorkerLimits& limits) {
  if (homes == Role::kWorker && cluster.NumTasks(Role::kPs) > 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        "the cluster has ", cluster.NumTasks(Role::kPs),
        " ps, but the variables are to be in the worker: leave ps out of TF_CONFIG, or use "
        "--local worker=1"));
  }
  if (homes == Role::kWorker && !mirrored && cluster.NumTasks(Role::kWorker) > 1) {
    return absl::InvalidArgumentError(absl::StrCat(
        "the cluster has ", cluster.NumTasks(Role::kWorker),
        " workers, but the variables are to be in the worker: leave one in TF_CONFIG, or use "
        "--local worker=1"));
  }
  if (homes == Role::kPs && cluster.NumTasks(Role::kPs) == 0) {
    return absl::InvalidArgumentError(
        "the cluster has no ps: parameter-server training needs at least one; add cluster.ps to "
        "TF_CONFIG or use --local ps=1,worker=1");
  }
  if (cluster.NumTasks(Role::kWorker) == 0) {
    return absl::InvalidArgumentError(
        "the cluster has no worker: add cluster.worker to TF_CONFIG or use --local "
        "ps=1,worker=1");
  }
  const int workers = cluster.NumTasks(Role::kWorker);
  if (limits.min <= workers && workers <= limits.max) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "the cluster has ", workers, " worker(s), but cluster.min_workers is ", limits.min,
      workers > limits.max ? absl::StrCat(" and cluster.max_workers ", limits.max) : ""));
}

}  // namespace

absl::StatusOr<Variable> VariableScope::CreateVariable(const VariableSpec& spec) {
  return coordinator_.impl_->CreateVariable(spec, rule_, colocate_with_);
}

VariableScope VariableScope::ColocateVarsWith(const Variable& variable) const {
  VariableScope scope = *this;
  scope.colocate_with_ = variable.name();
  return scope;
}

absl::StatusOr<std::unique_ptr<CachingScope>> CachingScope::Enter(ClusterCoordinator& coordinator) {
  if (coordinator.impl_->read_cache.Enter()) {
    return std::unique_ptr<CachingScope>(new CachingScope(coordinator.impl_->read_cache));
  }
  return absl::InvalidArgumentError(
      "caching scopes cannot be nested: this thread is inside one; end it first");
}

CachingScope::~CachingScope() { cache_.Leave(thread_); }

ClusterCoordinator::ClusterCoordinator(std::unique_ptr<CoordinatorImpl> impl)
    : impl_(std::move(impl)) {}

ClusterCoordinator::~ClusterCoordinator() { impl_->parts.Stop(); }

absl::StatusOr<std::unique_ptr<ClusterCoordinator>> ClusterCoordinator::Connect(World world,
                                                                                Waiter& waiter,
                                                                                Options options) {
  ASSIGN_OR_RETURN(std::unique_ptr<ClusterCoordinator> coordinator,
                   Create(world, waiter, std::move(options)));
  RETURN_IF_ERROR(coordinator->WaitForCluster());
  return coordinator;
}

absl::StatusOr<std::unique_ptr<ClusterCoordinator>> ClusterCoordinator::Create(World world,
                                                                               Waiter& waiter,
                                                                               Options options) {
  RETURN_IF_ERROR(CheckCluster(options.cluster, options.homes, options.mirrored, options.workers));
  return std::unique_ptr<ClusterCoordinator>(
      new ClusterCoordinator(std::make_unique<CoordinatorImpl>(world, waiter, std::move(options))));
}

absl::Status ClusterCoordinator::WaitForCluster() {
  uint64_t floor = 0;
  if (impl_->parts.recovery != nullptr) {
    ASSIGN_OR_RETURN(const RecoveryStore::Left left, impl_->ReadLeft());
    // The names of checkpoint files contain the epoch and must sort in the order in which the files
    // were written. So the new epoch must be higher than the epoch of every checkpoint that exists.
    floor = left.epoch;
  }
  const absl::Time deadline = impl_->world.clock.Now() + impl_->options.connect_timeout;
  const auto not_ready = [&](const absl::Status& status) {
    if (!absl::IsDeadlineExceeded(status)) return status;
    return absl::DeadlineExceededError(absl::StrCat(
        "the cluster was not ready after ", absl::FormatDuration(impl_->options.connect_timeout),
        impl_->options.homes == Role::kPs ? " (wanted every ps and " : " (wanted ",
        impl_->options.workers.min, " worker(s)): ", impl_->parts.cluster->ReportMissing()));
  };
  const absl::StatusOr<uint64_t> epoch =
      Await<uint64_t>(impl_->waiter, impl_->options.connect_timeout, "every ps",
                      [&](auto done) { impl_->parts.cluster->Claim(floor, std::move(done)); });
  if (!epoch.ok()) return not_ready(epoch.status());
  impl_->parts.scheduler->SetEpoch(*epoch);
  // The connect timeout covers both waits: workers are awaited for the time that the wait for
  // parameter servers has left.
  const absl::Status ready =
      Await<bool>(impl_->waiter, deadline - impl_->world.clock.Now(), "the tasks", [&](auto done) {
        impl_->parts.cluster->WhenReady(impl_->options.workers.min,
                                        [done = std::move(done)](absl::Status status) mutable {
                                          if (!status.ok()) return done(status);
                                          done(true);
                                        });
      }).status();
  if (!ready.ok()) return not_ready(ready);
  if (impl_->parts.recovery != nullptr) impl_->parts.recovery->Start();
  return absl::OkStatus();
}

VariableScope ClusterCoordinator::Scope(proto::UpdateRule rule) {
  return VariableScope(*this, std::move(rule));
}

absl::Status ClusterCoordinator::CreateVariables(absl::Span<const proto::VariableLayout> layouts) {
  return impl_->CreateVariables(layouts);
}

absl::StatusOr<Tensor> ClusterCoordinator::Read(const Variable& variable) {
  if (variable.is_local()) return variable.local_value();
  return impl_->read_cache.Read(variable.name(),
                                [&] { return impl_->parts.ps->Read(variable.layout()); });
}

absl::StatusOr<std::vector<Tensor>> ClusterCoordinator::LocalResults(const Variable& variable) {
  const proto::VariableLayout& layout = variable.layout();
  if (variable.is_local() || layout.replicas() == 0) {
    ASSIGN_OR_RETURN(Tensor value, Read(variable));
    std::vector<Tensor> one;
    one.push_back(std::move(value));
    return one;
  }
  ASSIGN_OR_RETURN(const Tensor rows, impl_->parts.ps->ReadAll(layout));
  // A home keeps the values of all replicas of a variable as the rows of one tensor.
  std::vector<Tensor> values;
  for (int64_t replica = 0; replica < layout.replicas(); ++replica) {
    values.push_back(RowOfReplica(rows, replica));
  }
  return values;
}

absl::Status ClusterCoordinator::Assign(const Variable& variable, const Tensor& value) {
  return Change(variable, {proto::CHANGE_SET, std::nullopt, value});
}

absl::Status ClusterCoordinator::Change(const Variable& variable, const VariableChange& change) {
  if (variable.is_local()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "variable ", variable.name(), " lives with the coordinator: make it inside a scope"));
  }
  // The lock is held until the change is made, so changes are made one after another: each
  // slice remembers only the number of its last change.
  MutexLock lock(impl_->change_mutex);
  const uint64_t update = impl_->parts.ps->NextUpdate();
  // A slice whose restored checkpoint contains the change ignores it; the other slices make it.
  return impl_->UntilDurable(
      [&] { return impl_->parts.ps->Change(variable.layout(), change, update); });
}

absl::Status ClusterCoordinator::AssignAverages(absl::Span<const proto::VariableLayout> variables) {
  MutexLock lock(impl_->change_mutex);
  // A slice that is its average already stays so.
  return impl_->UntilDurable([&] { return impl_->parts.ps->AssignAverages(variables); });
}

absl::StatusOr<ProgramHandle> ClusterCoordinator::Register(const proto::Program& program) {
  auto registered = std::make_shared<RegisteredProgram>();
  registered->id = ProgramId(program);
  registered->owner = impl_->owner();
  registered->request.set_program_id(registered->id);
  *registered->request.mutable_program() = program;
  registered->request.set_seed(impl_->options.seed);
  // The request carries the layout of each variable that the program reads, pushes to or assigns.
  std::map<std::string, bool> wanted;
  for (const proto::InputBinding& input : program.inputs()) {
    if (input.has_variable()) wanted[input.variable()] = true;
  }
  for (const proto::OutputBinding& output : program.outputs()) {
    if (output.has_push()) wanted[output.push()] = true;
    if (output.has_assign()) wanted[output.assign()] = true;
  }
  MutexLock lock(impl_->mutex);
  for (const auto& [name, is_wanted] : wanted) {
    const auto layout = impl_->layouts.find(name);
    if (layout == impl_->layouts.end()) {
      return absl::InvalidArgumentError(absl::StrCat("program ", program.name(),
                                                     " is bound to variable '", name,
                                                     "', which was not created inside a scope"));
    }
    *registered->request.add_variables() = layout->second;
  }
  return registered;
}

DatasetHandle ClusterCoordinator::CreatePerWorkerDataset(proto::DatasetSpec spec) {
  auto dataset = std::make_shared<RegisteredDataset>();
  dataset->owner = impl_->owner();
  dataset->spec = std::move(spec);
  MutexLock lock(impl_->mutex);
  dataset->id = ++impl_->last_resource_id;
  return dataset;
}

IteratorHandle ClusterCoordinator::MakeIterator(const DatasetHandle& dataset) {
  auto iterator = std::make_shared<RegisteredIterator>();
  iterator->owner = impl_->owner();
  iterator->dataset = dataset;
  MutexLock lock(impl_->mutex);
  iterator->id = ++impl_->last_resource_id;
  return iterator;
}

absl::StatusOr<proto::ExpectedData> ClusterCoordinator::DescribeDataset(
    const DatasetHandle& dataset) {
  ASSIGN_OR_RETURN(DataOfWorkers data,
                   AskForData(impl_->world, impl_->waiter, *impl_->parts.cluster,
                              impl_->QuestionAbout(*dataset)));
  // Workers that join later compare their own data with this description and refuse to build a data
  // set that differs.
  dataset->expected->Set(data.expected);
  MutexLock lock(impl_->mutex);
  impl_->described[dataset->id] = data;
  return std::move(data.expected);
}

absl::StatusOr<std::vector<ColumnStatistics>> ClusterCoordinator::GatherStatistics(
    const DatasetHandle& dataset, int64_t examples) {
  return AskForStatistics(impl_->world, impl_->waiter, *impl_->parts.cluster,
                          {dataset->id, dataset->spec, examples, impl_->options.connect_timeout,
                           impl_->options.call_timeout});
}

absl::Status ClusterCoordinator::CompareDataset(const DatasetHandle& dataset) {
  DataOfWorkers data;
  {
    MutexLock lock(impl_->mutex);
    const auto described = impl_->described.find(dataset->id);
    if (described == impl_->described.end()) {
      return absl::FailedPreconditionError("call DescribeDataset before CompareDataset");
    }
    data = described->second;
  }
  return AskToCompare(impl_->waiter, *impl_->parts.cluster, impl_->QuestionAbout(*dataset), data);
}

absl::StatusOr<ClusterShape> ClusterCoordinator::ShapeFor(const Strategy& strategy) {
  ClusterShape shape{impl_->options.cluster.Indices(Role::kPs),
                     impl_->options.cluster.Indices(Role::kWorker)};
  if (!strategy.TakesAllDevices()) return shape;
  ASSIGN_OR_RETURN(
      shape.devices,
      AskForDevices(impl_->world, impl_->waiter, *impl_->parts.cluster,
                    {shape.workers, impl_->options.connect_timeout,
                     std::min(impl_->options.call_timeout, 2 * impl_->options.lease)}));
  return shape;
}

absl::StatusOr<RemoteValue> ClusterCoordinator::Schedule(const ProgramHandle& program,
                                                         ScheduleOptions options) {
  // An invalid closure is refused before it takes room in the queue.
  RETURN_IF_ERROR(CheckClosure(program.get(), options, {impl_->options, impl_->owner()}));
  if (impl_->parts.recovery != nullptr && !impl_->resumed) {
    return absl::FailedPreconditionError(
        "with a recovery directory, call ResumeState before the first Schedule");
  }
  auto result = std::make_shared<RemoteValueState>();
  auto closure = std::make_shared<Closure>();
  closure->program = program;
  closure->arguments = std::move(options.arguments);
  closure->input = std::move(options.input);
  closure->learning_rate = options.learning_rate;
  closure->step = options.step;
  closure->later_steps = std::move(options.later_steps);
  closure->round = options.round;
  closure->gang = options.gang;
  closure->deadline = impl_->world.clock.Now() + options.timeout;
  closure->replayable = options.replayable;
  closure->result = result;
  // Schedule waits only until the queue has room for the closure. The closure runs later.
  RETURN_IF_ERROR(
      impl_->Wait(options.queue_timeout, "room in the queue", [&](Scheduler::Done done) {
        return impl_->parts.scheduler->Schedule(std::move(closure), std::move(done));
      }));
  return RemoteValue(std::move(result), impl_->owner());
}

absl::Status ClusterCoordinator::Join(absl::Duration timeout) {
  return impl_->Wait(timeout, "all closures to end", [&](Scheduler::Done done) {
    return impl_->parts.scheduler->Join(std::move(done));
  });
}

absl::StatusOr<bool> ClusterCoordinator::Done(absl::Duration timeout) {
  bool idle = false;
  RETURN_IF_ERROR(impl_->Wait(timeout, "closures in flight to end", [&](Scheduler::Done done) {
    return impl_->parts.scheduler->CheckDone(
        [&idle, done = std::move(done)](absl::StatusOr<bool> answer) mutable {
          idle = answer.value_or(false);
          done(answer.status());
        });
  }));
  return idle;
}

absl::StatusOr<FetchedTensors> ClusterCoordinator::Fetch(const RemoteValue& value,
                                                         absl::Duration timeout) {
  if (!value.has_value()) return absl::InvalidArgumentError("Fetch of an empty RemoteValue");
  // While Fetch waits for a result, the scheduler must not stop closures because of an error that
  // no call has observed: the result may depend on these closures.
  impl_->parts.scheduler->BeginFetch();
  const bool came = impl_->waiter.Wait(value.state().event(), timeout);
  impl_->parts.scheduler->EndFetch();
  if (!came) {
    return impl_->TimedOut(timeout, "the result of a closure");
  }
  return value.state().result();
}

absl::StatusOr<std::optional<proto::CoordinatorState>> ClusterCoordinator::ResumeState() {
  if (impl_->parts.recovery == nullptr) return std::optional<proto::CoordinatorState>();
  ASSIGN_OR_RETURN(RecoveryStore::Left left, impl_->ReadLeft());
  // Parameter servers that an earlier coordinator used may hold values of unknown origin. So even
  // if there is no checkpoint, the job restores the servers: to the initial values.
  const bool starts_anew = left.checkpoints.empty();
  if (!left.damage.ok()) {
    // The newest checkpoint is damaged, so the job resumes from the newest one that is whole.
    Log(LogLevel::kWarning, "recovery_checkpoint_damaged",
        {{"cause", left.damage.message()}, {"taken", left.checkpoints.front().prefix}});
  }
  ASSIGN_OR_RETURN(const proto::CoordinatorState state,
                   (Await<proto::CoordinatorState>(
                       impl_->waiter, absl::InfiniteDuration(),
                       "the last checkpoint to be restored", [&](auto done) {
                         impl_->parts.recovery->Adopt(std::move(left.checkpoints), std::move(done));
                       })));
  if (!starts_anew || !impl_->options.has_application_state) impl_->has_state = true;
  impl_->resumed = true;
  if (starts_anew) return std::optional<proto::CoordinatorState>();
  if (state.watermark() > 1) impl_->parts.scheduler->SkipTo(ClosureId{state.watermark()});
  return std::optional<proto::CoordinatorState>(state);
}

absl::StatusOr<std::optional<proto::CoordinatorState>> ClusterCoordinator::LeftState() const {
  if (impl_->parts.recovery == nullptr) return std::optional<proto::CoordinatorState>();
  ASSIGN_OR_RETURN(const RecoveryStore::Left left, impl_->ReadLeft());
  if (left.checkpoints.empty()) return std::optional<proto::CoordinatorState>();
  return std::optional<proto::CoordinatorState>(left.checkpoints.front().state);
}

absl::StatusOr<SliceStarts> ClusterCoordinator::LeftSlices() const { return impl_->LeftSlices(); }

void ClusterCoordinator::SkipTo(ClosureId next) { impl_->parts.scheduler->SkipTo(next); }

ClosureId ClusterCoordinator::NextId() const { return impl_->parts.scheduler->NextId(); }

void ClusterCoordinator::SetApplicationState(ApplicationState state) {
  if (impl_->parts.recovery == nullptr) return;
  impl_->parts.recovery->SetApplicationState(std::move(state));
  impl_->has_state = true;
}

absl::Status ClusterCoordinator::MakeDurable() { return impl_->MakeDurable(); }

void ClusterCoordinator::MakeDurableSoon() {
  if (impl_->parts.recovery != nullptr)
    impl_->parts.recovery->Checkpoint([](const absl::Status&) {});
}

absl::Status ClusterCoordinator::CheckHeld() {
  return cohort::CheckHeld(impl_->waiter, *impl_->parts.cluster);
}

absl::Status ClusterCoordinator::ConfirmHeld() {
  return cohort::ConfirmHeld(impl_->waiter, *impl_->parts.cluster);
}

absl::Status ClusterCoordinator::ForgetState() {
  if (impl_->parts.recovery == nullptr) return absl::OkStatus();
  // If another coordinator has taken over the job, it needs the checkpoints. So checkpoints are
  // removed only after a check that the tasks are still held by this coordinator.
  RETURN_IF_ERROR(CheckHeld());
  return impl_->WaitFor("the recovery checkpoints to be removed", [&](Recovery::Done done) {
    impl_->parts.recovery->Forget(std::move(done));
  });
}

void ClusterCoordinator::Abort(const absl::Status& reason) {
  impl_->parts.scheduler->RecordError(reason);
  impl_->parts.cluster->Abort(reason);
}

void ClusterCoordinator::EndNow(const absl::Status& reason) {
  // Recovery closes the scheduler, too, and ends the waits for checkpoints.
  if (impl_->parts.recovery != nullptr) {
    impl_->parts.recovery->EndJob(reason);
  } else {
    impl_->parts.scheduler->Close(reason);
  }
  impl_->parts.cluster->Abort(reason);
}

bool ClusterCoordinator::CheckpointAndHold(absl::Duration patience,
                                           absl::AnyInvocable<void(absl::Status)> done) {
  if (impl_->parts.recovery == nullptr || !impl_->resumed || !impl_->has_state) return false;
  impl_->parts.recovery->CheckpointAndHold(patience, std::move(done));
  return true;
}

absl::Status ClusterCoordinator::Leave(Farewell farewell, absl::Duration call_timeout) {
  return LeaveTasks(impl_->waiter, *impl_->parts.cluster, farewell, call_timeout);
}

SchedulerStats ClusterCoordinator::stats() const { return impl_->parts.scheduler->stats(); }

const ClusterSpec& ClusterCoordinator::cluster() const { return impl_->options.cluster; }

const std::string& ClusterCoordinator::recovery_directory() const {
  return impl_->options.recovery_directory;
}

std::string ClusterCoordinator::ClusterReport() const { return impl_->parts.cluster->Report(); }

const CoordinatorParts& ClusterCoordinator::parts() const { return impl_->parts; }

}  // namespace cohort
