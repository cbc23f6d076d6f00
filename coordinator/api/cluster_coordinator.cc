#include "coordinator/api/cluster_coordinator.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/log.h"
#include "common/base/rng.h"
#include "common/base/status.h"
#include "common/program/aggregation.h"
#include "common/program/program.h"
#include "common/wire/error_detail.h"
#include "coordinator/api/closure_check.h"
#include "coordinator/cluster/await.h"
#include "coordinator/cluster/leave_tasks.h"
#include "coordinator/homes/home_calls.h"
#include "coordinator/strategy/variable_pieces.h"

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

// Makes the error of a wait that timed out. The text names `what` was waited for and the tasks that
// do not answer. The error's origin is the task that has been silent for longest.
absl::Status TimedOut(absl::Duration timeout, absl::string_view what, const Scheduler& scheduler,
                      const Cluster& cluster) {
  std::string text = absl::StrCat("waited ", absl::FormatDuration(timeout), " for ", what, ": ",
                                  scheduler.DescribeWait());
  proto::ErrorDetail detail;
  // After a timeout nothing is lost, so the caller may wait again.
  detail.set_error_class(proto::TRANSIENT);
  absl::Duration longest;
  for (const Cluster::Silent& silent : cluster.silent()) {
    const bool serves = silent.since < absl::InfiniteDuration();
    absl::StrAppend(
        &text, "; ", silent.task.ToString(),
        serves ? absl::StrCat(" has been silent for ", absl::FormatDuration(absl::Trunc(
                                                           silent.since, absl::Milliseconds(10))))
               : " is not there");
    if (silent.since <= longest) continue;
    longest = silent.since;
    detail.mutable_origin()->set_role(RoleName(silent.task.role));
    detail.mutable_origin()->set_index(silent.task.index);
  }
  for (const std::string& apart : cluster.ReportApart()) absl::StrAppend(&text, "; ", apart);
  return WithDetail(absl::DeadlineExceededError(text), detail);
}

}  // namespace

absl::StatusOr<Variable> VariableScope::CreateVariable(const VariableSpec& spec) {
  return coordinator_.CreateVariable(spec, rule_, options_);
}

VariableScope VariableScope::ColocateVarsWith(const Variable& variable) const {
  VariableScope scope = *this;
  scope.options_.colocate_with = variable.name();
  return scope;
}

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
      new ClusterCoordinator(world, waiter, std::move(options)));
}

void ClusterCoordinator::Abort(const absl::Status& reason) {
  scheduler_->RecordError(reason);
  cluster_->Abort(reason);
}

void ClusterCoordinator::EndNow(const absl::Status& reason) {
  // Recovery closes the scheduler, too, and ends the waits for checkpoints.
  if (recovery_ != nullptr) {
    recovery_->EndJob(reason);
  } else {
    scheduler_->Close(reason);
  }
  cluster_->Abort(reason);
}

VariableScope ClusterCoordinator::Scope(proto::UpdateRule rule) {
  return VariableScope(*this, std::move(rule));
}

absl::StatusOr<Variable> ClusterCoordinator::CreateVariable(const VariableSpec& spec,
                                                            const proto::UpdateRule& rule,
                                                            const VariableOptions& options) {
  VariableOptions of_strategy = options;
  of_strategy.replicas = options_.replicas;
  FindLeftSlices();
  proto::VariableLayout layout;
  {
    MutexLock lock(mutex_);
    ASSIGN_OR_RETURN(layout, creator_.CreateVariable(spec, rule, of_strategy));
    const SliceStarts left = left_slices_.value_or(SliceStarts());
    if (left.count(spec.name) > 0) CutAt(left.at(spec.name), layout);
    // The lock also protects next_slice_id_, because slice ids must be unique among all variables.
    CutPieces(options_.slice_bytes_max, next_slice_id_, layout);
  }
  layout.set_mirrored(options_.mirrored);
  RETURN_IF_ERROR(CreateVariables({layout}));
  return Variable(std::move(layout), options_.homes);
}

void ClusterCoordinator::FindLeftSlices() {
  {
    MutexLock lock(mutex_);
    if (left_slices_.has_value()) return;
  }
  absl::StatusOr<SliceStarts> left = LeftSlices();
  MutexLock lock(mutex_);
  // A checkpoint that cannot be read is an error of ResumeState, which reads it too.
  if (left.ok()) left_slices_ = *std::move(left);
}

absl::Status ClusterCoordinator::CreateVariables(absl::Span<const proto::VariableLayout> layouts) {
  // Before any home creates a variable, it is checked that the homes have enough memory.
  RETURN_IF_ERROR(memory_->Add(layouts));
  if (copies_ != nullptr) copies_->AddVariables({layouts.begin(), layouts.end()});
  RETURN_IF_ERROR(ps_->CreateVariables(layouts));
  {
    MutexLock lock(mutex_);
    for (const proto::VariableLayout& layout : layouts) layouts_[layout.name()] = layout;
  }
  // Older checkpoints do not contain the new variables and so could not restore them. Therefore
  // this call waits for a new checkpoint.
  if (recovery_ == nullptr) return absl::OkStatus();
  return WaitFor("a checkpoint with the new variables", [&](Recovery::Done done) {
    recovery_->AddVariables({layouts.begin(), layouts.end()}, std::move(done));
  });
}

absl::StatusOr<Tensor> ClusterCoordinator::Read(const Variable& variable) {
  if (variable.is_local()) return variable.local_value();
  return read_cache_.Read(variable.name(), [&] { return ps_->Read(variable.layout()); });
}

absl::StatusOr<std::vector<Tensor>> ClusterCoordinator::LocalResults(const Variable& variable) {
  const proto::VariableLayout& layout = variable.layout();
  if (variable.is_local() || layout.replicas() == 0) {
    ASSIGN_OR_RETURN(Tensor value, Read(variable));
    std::vector<Tensor> one;
    one.push_back(std::move(value));
    return one;
  }
  ASSIGN_OR_RETURN(const Tensor rows, ps_->ReadAll(layout));
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
  MutexLock lock(change_mutex_);
  const uint64_t update = ps_->NextUpdate();
  // A slice whose restored checkpoint contains the change ignores it; the other slices make it.
  return UntilDurable([&] { return ps_->Change(variable.layout(), change, update); });
}

absl::Status ClusterCoordinator::AssignAverages(absl::Span<const proto::VariableLayout> variables) {
  MutexLock lock(change_mutex_);
  // A slice that is its average already stays so.
  return UntilDurable([&] { return ps_->AssignAverages(variables); });
}

absl::Status ClusterCoordinator::UntilDurable(absl::FunctionRef<absl::Status()> change) {
  // A change is not a closure, so no replay repeats it. If a recovery ran meanwhile, it has put the
  // variables back to what they were before, and the change is made again.
  while (true) {
    const uint64_t epoch = cluster_->epoch();
    RETURN_IF_ERROR(change());
    RETURN_IF_ERROR(MakeDurable());
    if (cluster_->epoch() == epoch) return absl::OkStatus();
  }
}

absl::StatusOr<ProgramHandle> ClusterCoordinator::Register(const proto::Program& program) {
  auto registered = std::make_shared<RegisteredProgram>();
  registered->id = ProgramId(program);
  registered->owner = owner();
  registered->request.set_program_id(registered->id);
  *registered->request.mutable_program() = program;
  registered->request.set_seed(options_.seed);
  // The request carries the layout of each variable that the program reads, pushes to or assigns.
  std::map<std::string, bool> wanted;
  for (const proto::InputBinding& input : program.inputs()) {
    if (input.has_variable()) wanted[input.variable()] = true;
  }
  for (const proto::OutputBinding& output : program.outputs()) {
    if (output.has_push()) wanted[output.push()] = true;
    if (output.has_assign()) wanted[output.assign()] = true;
  }
  MutexLock lock(mutex_);
  for (const auto& [name, is_wanted] : wanted) {
    const auto layout = layouts_.find(name);
    if (layout == layouts_.end()) {
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
  dataset->owner = owner();
  dataset->spec = std::move(spec);
  MutexLock lock(mutex_);
  dataset->id = ++last_resource_id_;
  return dataset;
}

IteratorHandle ClusterCoordinator::MakeIterator(const DatasetHandle& dataset) {
  auto iterator = std::make_shared<RegisteredIterator>();
  iterator->owner = owner();
  iterator->dataset = dataset;
  MutexLock lock(mutex_);
  iterator->id = ++last_resource_id_;
  return iterator;
}

absl::StatusOr<proto::ExpectedData> ClusterCoordinator::DescribeDataset(
    const DatasetHandle& dataset) {
  ASSIGN_OR_RETURN(DataOfWorkers data,
                   AskForData(world_, waiter_, *cluster_, QuestionAbout(*dataset)));
  // Workers that join later compare their own data with this description and refuse to build a data
  // set that differs.
  dataset->expected->Set(data.expected);
  MutexLock lock(mutex_);
  described_[dataset->id] = data;
  return std::move(data.expected);
}

absl::Status ClusterCoordinator::CompareDataset(const DatasetHandle& dataset) {
  DataOfWorkers data;
  {
    MutexLock lock(mutex_);
    const auto described = described_.find(dataset->id);
    if (described == described_.end()) {
      return absl::FailedPreconditionError("call DescribeDataset before CompareDataset");
    }
    data = described->second;
  }
  return AskToCompare(waiter_, *cluster_, QuestionAbout(*dataset), data);
}

DataQuestion ClusterCoordinator::QuestionAbout(const RegisteredDataset& dataset) const {
  return {dataset.id, dataset.spec, options_.connect_timeout, options_.call_timeout};
}

absl::StatusOr<ClusterShape> ClusterCoordinator::ShapeFor(const Strategy& strategy) {
  ClusterShape shape{options_.cluster.Indices(Role::kPs), options_.cluster.Indices(Role::kWorker)};
  if (!strategy.TakesAllDevices()) return shape;
  ASSIGN_OR_RETURN(shape.devices,
                   AskForDevices(world_, waiter_, *cluster_,
                                 {shape.workers, options_.connect_timeout,
                                  std::min(options_.call_timeout, 2 * options_.lease)}));
  return shape;
}

absl::StatusOr<RemoteValue> ClusterCoordinator::Schedule(const ProgramHandle& program,
                                                         ScheduleOptions options) {
  // An invalid closure is refused before it takes room in the queue.
  RETURN_IF_ERROR(CheckClosure(program.get(), options, {options_, owner()}));
  if (recovery_ != nullptr && !resumed_) {
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
  closure->deadline = world_.clock.Now() + options.timeout;
  closure->replayable = options.replayable;
  closure->result = result;
  // Schedule waits only until the queue has room for the closure. The closure runs later.
  RETURN_IF_ERROR(Wait(options.queue_timeout, "room in the queue", [&](Scheduler::Done done) {
    return scheduler_->Schedule(std::move(closure), std::move(done));
  }));
  return RemoteValue(std::move(result), owner());
}

absl::Status ClusterCoordinator::Join(absl::Duration timeout) {
  return Wait(timeout, "all closures to end",
              [&](Scheduler::Done done) { return scheduler_->Join(std::move(done)); });
}

absl::StatusOr<bool> ClusterCoordinator::Done(absl::Duration timeout) {
  bool idle = false;
  RETURN_IF_ERROR(Wait(timeout, "closures in flight to end", [&](Scheduler::Done done) {
    return scheduler_->CheckDone(
        [&idle, done = std::move(done)](absl::StatusOr<bool> answer) mutable {
          idle = answer.value_or(false);
          done(answer.status());
        });
  }));
  return idle;
}

absl::Status ClusterCoordinator::Wait(absl::Duration timeout, absl::string_view what,
                                      absl::FunctionRef<WaitId(Scheduler::Done)> start) {
  return AwaitOrAbandon<bool>(
             waiter_, timeout, [&] { return TimedOut(timeout, what, *scheduler_, *cluster_); },
             [&](auto done) {
               return start([done = std::move(done)](absl::Status error) mutable {
                 if (!error.ok()) return done(error);
                 done(true);
               });
             },
             [&](WaitId wait) { return scheduler_->Abandon(wait); })
      .status();
}

absl::StatusOr<FetchedTensors> ClusterCoordinator::Fetch(const RemoteValue& value,
                                                         absl::Duration timeout) {
  if (!value.has_value()) return absl::InvalidArgumentError("Fetch of an empty RemoteValue");
  // While Fetch waits for a result, the scheduler must not stop closures because of an error that
  // no call has observed: the result may depend on these closures.
  scheduler_->BeginFetch();
  const bool came = waiter_.Wait(value.state().event(), timeout);
  scheduler_->EndFetch();
  if (!came) {
    return TimedOut(timeout, "the result of a closure", *scheduler_, *cluster_);
  }
  return value.state().result();
}

absl::Status ClusterCoordinator::Leave(Farewell farewell, absl::Duration call_timeout) {
  return LeaveTasks(waiter_, *cluster_, farewell, call_timeout);
}

bool ReadCache::Enter() {
  MutexLock lock(mutex_);
  return scopes_.emplace(std::this_thread::get_id(), Values()).second;
}

void ReadCache::Leave(std::thread::id thread) {
  MutexLock lock(mutex_);
  scopes_.erase(thread);
}

absl::StatusOr<Tensor> ReadCache::Read(const std::string& variable,
                                       absl::FunctionRef<absl::StatusOr<Tensor>()> read) {
  {
    MutexLock lock(mutex_);
    const auto scope = scopes_.find(std::this_thread::get_id());
    if (scope != scopes_.end()) {
      const auto value = scope->second.find(variable);
      if (value != scope->second.end()) return value->second.Clone();
    }
  }
  // The lock of the cache is not held during the read, which waits for parameter servers.
  ASSIGN_OR_RETURN(Tensor value, read());
  MutexLock lock(mutex_);
  const auto scope = scopes_.find(std::this_thread::get_id());
  if (scope != scopes_.end()) scope->second.emplace(variable, value.Clone());
  return value;
}

absl::StatusOr<std::unique_ptr<CachingScope>> CachingScope::Enter(ClusterCoordinator& coordinator) {
  if (coordinator.read_cache_.Enter()) {
    return std::unique_ptr<CachingScope>(new CachingScope(coordinator.read_cache_));
  }
  return absl::InvalidArgumentError(
      "caching scopes cannot be nested: this thread is inside one; end it first");
}

CachingScope::~CachingScope() { cache_.Leave(thread_); }

}  // namespace cohort
