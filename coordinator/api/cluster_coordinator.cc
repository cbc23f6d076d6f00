#include "coordinator/api/cluster_coordinator.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/log.h"
#include "common/base/rng.h"
#include "common/base/status.h"
#include "common/program/program.h"
#include "common/wire/error_detail.h"
#include "coordinator/cluster/await.h"
#include "coordinator/cluster/ps_group.h"

namespace cohort {

namespace {

// Epochs grow from one start of a coordinator to the next, so a restarted one fences its
// predecessor.
uint64_t EpochOf(absl::Time now) { return static_cast<uint64_t>(absl::ToUnixMicros(now)); }

absl::Status CheckCluster(const ClusterSpec& cluster) {
  if (cluster.NumTasks(Role::kPs) == 0) {
    return absl::InvalidArgumentError(
        "the cluster has no ps: parameter-server training needs at least one; add cluster.ps to "
        "TF_CONFIG or use --local ps=1,worker=1");
  }
  if (cluster.NumTasks(Role::kWorker) == 0) {
    return absl::InvalidArgumentError(
        "the cluster has no worker: add cluster.worker to TF_CONFIG or use --local "
        "ps=1,worker=1");
  }
  return absl::OkStatus();
}

// `what` made by Register, MakeIterator or CreatePerWorkerDataset of the coordinator `epoch`. Ids
// are a coordinator's own: those of another would name something else here.
template <typename Handle>
absl::Status CheckHandle(const Handle* handle, absl::string_view what, absl::string_view maker,
                         uint64_t epoch) {
  if (handle == nullptr) {
    return absl::InvalidArgumentError(
        absl::StrCat("Schedule got no ", what, ": give it what ", maker, " returned"));
  }
  if (handle->owner == epoch) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("Schedule got the ", what,
                                                 " of another coordinator: make it with ", maker,
                                                 " of this one"));
}

void FenceAll(const Cluster& cluster, uint64_t watermark, absl::Duration timeout,
              absl::AnyInvocable<void(absl::Status)> done) {
  const absl::StatusOr<std::vector<TaskLink>> links = cluster.ps();
  if (!links.ok()) return done(links.status());
  Envelope<proto::FenceRequest> request;
  request.header.set_epoch(cluster.epoch());
  request.header.set_watermark(watermark);
  std::vector<Envelope<proto::FenceRequest>> requests(links->size(), request);
  CallEach<proto::FenceResponse>(
      *links, "/cohort.proto.PsService/Fence", std::move(requests), timeout,
      [done = std::move(done)](auto answers) mutable { done(answers.status()); });
}

bool IsShardedByWorker(const proto::DatasetSpec& spec) {
  return std::any_of(spec.transforms().begin(), spec.transforms().end(),
                     [](const auto& transform) { return transform.shard().by_worker(); });
}

absl::Status CheckClosure(const RegisteredProgram* program, const ScheduleOptions& options,
                          uint64_t epoch) {
  RETURN_IF_ERROR(CheckHandle(program, "program", "Register", epoch));
  for (size_t i = 0; i < options.arguments.size(); ++i) {
    if (const auto* value = std::get_if<RemoteValue>(&options.arguments[i])) {
      if (value->has_value() && value->owner() == epoch) continue;
      const char* const trouble = value->has_value()
                                      ? "of another coordinator: fetch it there, give the tensor"
                                      : "of no closure";
      return absl::InvalidArgumentError(
          absl::StrCat("argument ", i, " is a RemoteValue ", trouble));
    }
    if (std::get<Tensor>(options.arguments[i]).has_value()) continue;
    return absl::InvalidArgumentError(absl::StrCat("argument ", i, " is a tensor without value"));
  }
  if (const auto* iterator = std::get_if<IteratorHandle>(&options.input)) {
    return CheckHandle(iterator->get(), "iterator", "MakeIterator", epoch);
  }
  if (const auto* split = std::get_if<SplitInput>(&options.input)) {
    RETURN_IF_ERROR(
        CheckHandle(split->dataset.get(), "data set", "CreatePerWorkerDataset", epoch));
    if (IsShardedByWorker(split->dataset->spec)) {
      return absl::InvalidArgumentError(
          "a split names the same examples on every worker, and this data set is sharded by "
          "worker: use an iterator");
    }
  }
  return absl::OkStatus();
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
  RETURN_IF_ERROR(CheckCluster(options.cluster));
  std::unique_ptr<ClusterCoordinator> coordinator(
      new ClusterCoordinator(world, waiter, std::move(options)));
  coordinator->cluster_->Start();
  RETURN_IF_ERROR(coordinator->WaitForCluster());
  return coordinator;
}

ClusterCoordinator::ClusterCoordinator(World world, Waiter& waiter, Options options)
    : world_(world),
      waiter_(waiter),
      options_(std::move(options)),
      creator_(options_.cluster.Indices(Role::kPs), options_.partitioner) {
  const uint64_t epoch = EpochOf(world_.clock.Now());
  Scheduler::Options scheduling;
  scheduling.epoch = epoch;
  scheduling.queue_bound = options_.queue_bound;
  scheduling.closures_in_flight = options_.closures_in_flight;
  scheduling.attempts_max = options_.attempts_max;
  scheduling.quarantine_after = options_.quarantine_after;
  scheduling.quarantine = options_.quarantine;
  scheduling.stop_at_first_error = options_.stop_at_first_error;
  scheduling.closure_timeout = options_.closure_timeout;
  // Weak both ways: neither of the two keeps the other.
  auto cluster_slot = std::make_shared<std::weak_ptr<Cluster>>();
  scheduling.on_suspect = [cluster_slot](int worker, uint64_t incarnation) {
    if (const auto cluster = cluster_slot->lock()) cluster->SuspectWorker(worker, incarnation);
  };
  scheduling.fence = [cluster_slot, timeout = options_.call_timeout](uint64_t watermark,
                                                                     auto done) {
    if (const auto cluster = cluster_slot->lock()) {
      return FenceAll(*cluster, watermark, timeout, std::move(done));
    }
    done(absl::OkStatus());
  };
  scheduler_ = Scheduler::Create(world_.clock, std::move(scheduling));

  Cluster::Options members;
  members.spec = options_.cluster;
  members.job = options_.job;
  members.seed = options_.seed;
  members.epoch = epoch;
  members.coordinator_incarnation = Mix64(epoch);
  members.worker_threads = options_.worker_threads;
  members.lease = options_.lease;
  members.address = options_.address;
  members.on_worker_ready = [scheduler = scheduler_](int worker, const TaskLink& link) {
    scheduler->WorkerReady(worker, link.task, link.data);
  };
  members.on_worker_lost = [scheduler = scheduler_](int worker) { scheduler->WorkerLost(worker); };
  members.on_ps_lost = [scheduler = scheduler_](const absl::Status& error) {
    scheduler->RecordError(error);
  };
  cluster_ = Cluster::Create(world_, std::move(members));
  *cluster_slot = cluster_;
  ps_ = std::make_unique<PsControl>(cluster_, waiter_, options_.call_timeout);
}

ClusterCoordinator::~ClusterCoordinator() { cluster_->Stop(); }

absl::Status ClusterCoordinator::WaitForCluster() {
  auto ready = std::make_shared<Event>();  // shared: readiness may come after the time-out
  cluster_->WhenReady(options_.min_workers, [ready] { ready->Notify(); });
  if (waiter_.Wait(*ready, options_.connect_timeout)) return absl::OkStatus();
  return absl::DeadlineExceededError(absl::StrCat(
      "the cluster was not ready after ", absl::FormatDuration(options_.connect_timeout),
      " (wanted every ps and ", options_.min_workers, " worker(s)): ", cluster_->Report()));
}

VariableScope ClusterCoordinator::Scope(proto::UpdateRule rule) {
  return VariableScope(*this, std::move(rule));
}

absl::StatusOr<Variable> ClusterCoordinator::CreateVariable(const VariableSpec& spec,
                                                            const proto::UpdateRule& rule,
                                                            const VariableOptions& options) {
  proto::VariableLayout layout;
  {
    MutexLock lock(mutex_);
    ASSIGN_OR_RETURN(layout, creator_.CreateVariable(spec, rule, options));
  }
  RETURN_IF_ERROR(CreateVariables({layout}));
  return Variable(std::move(layout));
}

absl::Status ClusterCoordinator::CreateVariables(
    absl::Span<const proto::VariableLayout> layouts) {
  RETURN_IF_ERROR(ps_->CreateVariables(layouts));
  MutexLock lock(mutex_);
  for (const proto::VariableLayout& layout : layouts) layouts_[layout.name()] = layout;
  return absl::OkStatus();
}

absl::StatusOr<Tensor> ClusterCoordinator::Read(const Variable& variable) {
  if (variable.is_local()) return variable.local_value();
  return ps_->Read(variable.layout());
}

absl::Status ClusterCoordinator::Assign(const Variable& variable, const Tensor& value) {
  if (variable.is_local()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "variable ", variable.name(), " lives with the coordinator: make it inside a scope"));
  }
  return ps_->Assign(variable.layout(), value);
}

absl::StatusOr<ProgramHandle> ClusterCoordinator::Register(const proto::Program& program) {
  auto registered = std::make_shared<RegisteredProgram>();
  registered->id = ProgramId(program);
  registered->owner = cluster_->epoch();
  registered->request.set_program_id(registered->id);
  *registered->request.mutable_program() = program;
  registered->request.set_seed(options_.seed);
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
      return absl::InvalidArgumentError(
          absl::StrCat("program ", program.name(), " is bound to variable '", name,
                       "', which was not created inside a scope"));
    }
    *registered->request.add_variables() = layout->second;
  }
  return registered;
}

DatasetHandle ClusterCoordinator::CreatePerWorkerDataset(proto::DatasetSpec spec) {
  auto dataset = std::make_shared<RegisteredDataset>();
  dataset->owner = cluster_->epoch();
  dataset->spec = std::move(spec);
  MutexLock lock(mutex_);
  dataset->id = ++last_resource_id_;
  return dataset;
}

IteratorHandle ClusterCoordinator::MakeIterator(const DatasetHandle& dataset) {
  auto iterator = std::make_shared<RegisteredIterator>();
  iterator->owner = cluster_->epoch();
  iterator->dataset = dataset;
  MutexLock lock(mutex_);
  iterator->id = ++last_resource_id_;
  return iterator;
}

absl::StatusOr<proto::CreateDatasetResponse> ClusterCoordinator::DescribeDataset(
    const DatasetHandle& dataset) {
  TaskLink worker;
  for (const TaskLink& link : cluster_->serving()) {
    if (link.task.role() == RoleName(Role::kWorker)) worker = link;
  }
  if (worker.data == nullptr) {
    return absl::UnavailableError(
        absl::StrCat("no worker serves now: ", cluster_->Report()));
  }
  Envelope<proto::CreateDatasetRequest> request;
  request.header.set_epoch(cluster_->epoch());
  request.header.set_dataset_id(dataset->id);
  *request.header.mutable_spec() = dataset->spec;
  ASSIGN_OR_RETURN(auto response,
                   (Await<Envelope<proto::CreateDatasetResponse>>(
                       waiter_, options_.call_timeout * 2, "a worker to build the data set",
                       [&](auto done) {
                         StartCall<proto::CreateDatasetResponse>(
                             *worker.data, "/cohort.proto.WorkerService/CreateDataset",
                             std::move(request), options_.call_timeout,
                             [task = worker.task, done = std::move(done)](auto answer) mutable {
                               if (answer.ok()) return done(std::move(answer));
                               done(AttributedCall(answer.status(), task));
                             });
                       })));
  return response.header;
}

absl::StatusOr<RemoteValue> ClusterCoordinator::Schedule(const ProgramHandle& program,
                                                         ScheduleOptions options) {
  RETURN_IF_ERROR(CheckClosure(program.get(), options, cluster_->epoch()));
  auto result = std::make_shared<RemoteValueState>();
  auto closure = std::make_shared<Closure>();
  closure->program = program;
  closure->arguments = std::move(options.arguments);
  closure->input = std::move(options.input);
  closure->learning_rate = options.learning_rate;
  closure->step = options.step;
  closure->deadline = world_.clock.Now() + options.timeout;
  closure->result = result;
  RETURN_IF_ERROR(Wait(options.queue_timeout, "room in the queue", [&](Scheduler::Done done) {
    return scheduler_->Schedule(std::move(closure), std::move(done));
  }));
  return RemoteValue(std::move(result), cluster_->epoch());
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

absl::Status ClusterCoordinator::Wait(
    absl::Duration timeout, absl::string_view what,
    absl::FunctionRef<WaitId(Scheduler::Done)> start) {
  return AwaitOrAbandon<bool>(
             waiter_, timeout,
             [&] { return absl::StrCat(what, ": ", scheduler_->DescribeWait()); },
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
  if (!waiter_.Wait(value.state().event(), timeout)) {
    return absl::DeadlineExceededError(
        absl::StrCat("waited ", absl::FormatDuration(timeout),
                     " for the result of a closure: ", scheduler_->DescribeWait()));
  }
  return value.state().result();
}

void ClusterCoordinator::ShutdownTasks() {
  std::vector<TaskLink> links = cluster_->serving();
  cluster_->Stop();  // tasks that end from here on are not lost
  for (const TaskLink& link : links) {
    Envelope<proto::ShutdownRequest> request;
    request.header.set_epoch(cluster_->epoch());
    // A task that ends before its answer left is as good as one that answered.
    Await<Envelope<proto::ShutdownResponse>>(
        waiter_, absl::Seconds(5), "a task to end", [&](auto done) {
          StartCall<proto::ShutdownResponse>(*link.control, "/cohort.proto.TaskService/Shutdown",
                                             std::move(request), absl::Seconds(4),
                                             std::move(done));
        })
        .IgnoreError();
  }
}

}  // namespace cohort
