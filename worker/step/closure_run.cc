#include "worker/step/closure_run.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/status.h"
#include "common/cluster/process_limits.h"
#include "common/wire/error_detail.h"
#include "worker/step/row_lookup.h"

namespace cohort {

namespace {

// The version that a push sends for a slice that was not pulled. The parameter server then counts
// no staleness for the push.
constexpr uint64_t kNotPulled = std::numeric_limits<uint64_t>::max();

// Gives the error the class INPUT, so that the coordinator reports a fault of the job's data.
absl::Status InputError(const absl::Status& status) {
  proto::ErrorDetail detail = DetailOf(status);
  detail.set_error_class(proto::INPUT);
  return WithDetail(status, detail);
}

// Returns the time between two readings of the clock, in microseconds; 0 if the clock was set back.
int64_t Microseconds(absl::Time from, absl::Time to) {
  return std::max<int64_t>(absl::ToInt64Microseconds(to - from), 0);
}

}  // namespace

absl::Time DeadlineOf(const proto::RunClosureRequest& request, absl::Time now) {
  if (request.timeout_ms() <= 0) return absl::InfiniteFuture();
  return now + absl::Milliseconds(request.timeout_ms());
}

ClosureRun::ClosureRun(std::shared_ptr<ClosureParts> parts,
                       std::shared_ptr<const WorkerProgram> program, Request request, Replied reply)
    : parts_(std::move(parts)),
      program_(std::move(program)),
      header_(std::move(request.header)),
      deadline_(DeadlineOf(header_, parts_->world.clock.Now())),
      argument_bytes_(std::move(request.payload)),
      reply_(std::move(reply)) {}

void ClosureRun::Start(ClosureInput input) {
  marks_.start = marks_.batch = marks_.pulled = parts_->world.clock.Now();
  const bool batch = input.stream != nullptr || input.dataset != nullptr;
  // A run waits for its parts: batch and pull. They are one part if the batch names the rows to
  // pull.
  const bool by_rows = !program_->lookups.empty();
  const bool waits = !by_rows && (IsGang() || !program_->pulls.empty());
  {
    MutexLock lock(mutex_);
    // Start() itself counts as one part, so that the computation cannot begin before Start() has
    // started all other parts.
    parts_left_ = 1 + (batch || by_rows ? 1 : 0) + (waits ? 1 : 0);
  }
  if (waits) AwaitTurn();
  if (batch) {
    StartBatch(std::move(input));
  } else if (by_rows) {
    LookUpAndPull();
  }
  PartReady(absl::OkStatus());
}

void ClosureRun::StartBatch(ClosureInput input) {
  dataset_ = input.stream != nullptr ? input.stream->dataset() : input.dataset;
  position_ = input.position;
  if (input.stream != nullptr) {
    input.stream->Next(
        [self = shared_from_this()](absl::StatusOr<std::optional<ElementStream::Item>> item) {
          if (!item.ok()) return self->PartReady(self->BatchError(item.status()));
          if (!item->has_value()) {
            return self->PartReady(self->BatchError(absl::OutOfRangeError(
                absl::StrCat("end of data: iterator ", self->header_.iterator_id(),
                             " has no more elements", self->dataset_->FilesPhrase()))));
          }
          self->position_ = std::move((**item).position);
          self->next_position_ = std::move((**item).next_position);
          self->TakeElement(std::move((**item).element));
        });
    return;
  }
  // The batch is made on the executor, because copying its examples takes long.
  parts_->world.executor.Run([self = shared_from_this(), input = std::move(input)] {
    absl::StatusOr<Element> element = input.dataset->ElementAt(input.position);
    if (!element.ok()) return self->PartReady(self->BatchError(element.status()));
    self->TakeElement(*std::move(element));
  });
}

void ClosureRun::TakeElement(Element element) {
  element_ = std::move(element);
  marks_.batch = parts_->world.clock.Now();
  if (program_->lookups.empty()) return PartReady(absl::OkStatus());
  // Rows are looked up on the executor, because TakeElement() may run on a thread of the transport.
  parts_->world.executor.Run([self = shared_from_this()] { self->LookUpAndPull(); });
}

void ClosureRun::LookUpAndPull() {
  if (absl::Status status = LookUp(); !status.ok()) return PartReady(BatchError(status));
  AwaitTurn();
}

absl::Status ClosureRun::LookUp() {
  // The batch is checked before the lookups, because they use its components by index.
  RETURN_IF_ERROR(CheckBatch());
  auto rows = std::make_shared<RowIds>(program_->pulls.variables.size());
  positions_.resize(program_->num_positions);
  for (const TableLookup& lookup : program_->lookups) {
    const VariableType& table = program_->pulls.variables[lookup.variable];
    std::vector<IdColumn> columns;
    for (const TableLookup::Column& column : lookup.columns) {
      IdColumn& ids = columns.emplace_back();
      ids = {column.input, &element_[column.component], column.negative_is_none};
      if (dataset_ == nullptr) continue;
      ids.example_name = [this, component = column.component](int64_t row) {
        return dataset_->ExampleName(position_, row, component);
      };
    }
    ASSIGN_OR_RETURN(RowLookup found, table.dynamic
                                          ? LookUpKeys(table.name, columns)
                                          : LookUpRows(table.name, table.shape.dim(0), columns));
    (*rows)[lookup.variable] = std::move(found.rows);
    for (size_t i = 0; i < columns.size(); ++i) {
      positions_[lookup.columns[i].position] = std::move(found.positions[i]);
    }
  }
  rows_ = std::move(rows);
  return absl::OkStatus();
}

void ClosureRun::StartPulls() {
  // The plan is a shared_ptr into the program, so it keeps the whole program alive.
  const PsClient::Plan plan(program_, &program_->pulls);
  parts_->ps_client->Pull(plan, rows_, ContextOfTransfer(),
                          [self = shared_from_this()](absl::StatusOr<Pulled> pulled) {
                            if (!pulled.ok()) return self->PartReady(pulled.status());
                            self->pulled_ = *std::move(pulled);
                            self->marks_.pulled = self->parts_->world.clock.Now();
                            self->PartReady(absl::OkStatus());
                          });
}

void ClosureRun::PartReady(absl::Status status) {
  absl::Status error;
  {
    MutexLock lock(mutex_);
    // The first error becomes the closure's error. The reply still waits for all parts, because
    // each part writes to this object.
    first_error_.Update(status);
    if (--parts_left_ > 0) return;
    error = first_error_;
  }
  if (!error.ok()) return Finish(std::move(error));
  // The computation runs on the strand of replica 0 and not on a thread of the transport.
  parts_->compute->Of(0).Post([self = shared_from_this()] { self->Compute(); });
}

void ClosureRun::Compute() {
  // The epoch is checked again, because it may have changed while the closure waited for its parts.
  marks_.compute = parts_->world.clock.Now();
  const absl::Status epoch = parts_->task_service->CheckEpoch(header_.epoch());
  if (!epoch.ok()) return Finish(epoch);
  absl::StatusOr<std::vector<Tensor>> inputs = GatherInputs();
  if (!inputs.ok()) return Finish(inputs.status());
  ReplicatedRun::Values values{*std::move(inputs), RowsBefore()};
  element_.clear();
  positions_.clear();
  pulled_.values.clear();  // from here on, the ReplicatedRun holds the pulled values
  RunContext context;
  context.seed = program_->seed;
  context.step = header_.step();
  std::make_shared<ReplicatedRun>(
      program_, parts_->compute, group_, std::move(values), context,
      [self = shared_from_this()](absl::StatusOr<ReplicatedRun::Outputs> outputs) {
        self->OnComputed(std::move(outputs));
      })
      ->Start();
}

void ClosureRun::OnComputed(absl::StatusOr<ReplicatedRun::Outputs> outputs) {
  marks_.computed = parts_->world.clock.Now();
  if (outputs.ok()) return SendOutputs(*std::move(outputs));
  Finish(Annotate(outputs.status(), absl::StrCat("program '", program_->name, "'")));
}

absl::Status ClosureRun::BatchError(const absl::Status& status) const {
  // The error names this worker, because each worker reads its own copy of the files.
  return InputError(
      Annotate(status, TaskName(WithoutIncarnation(parts_->task_service->task_ref()))));
}

absl::Status ClosureRun::CheckBatch() const {
  if (program_->num_components <= element_.size()) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("program '", program_->name, "' reads ", program_->num_components,
                   " components of its batch, the closure's input has ", element_.size()));
}

absl::StatusOr<std::vector<Tensor>> ClosureRun::GatherInputs() {
  RETURN_IF_ERROR(BatchError(CheckBatch()));
  ASSIGN_OR_RETURN(const std::vector<Tensor> arguments,
                   ReadTensors(header_.arguments(), argument_bytes_));
  // The request's payload is released here, because `arguments` holds its bytes from now on.
  argument_bytes_.clear();
  if (program_->num_arguments > arguments.size()) {
    return absl::InvalidArgumentError(absl::StrCat("program '", program_->name, "' takes ",
                                                   program_->num_arguments, " arguments, ",
                                                   arguments.size(), " came"));
  }
  std::vector<Tensor> inputs;
  inputs.reserve(program_->inputs.size());
  for (const InputSource& source : program_->inputs) {
    switch (source.kind) {
      case InputSource::Kind::kBatch:
        inputs.push_back(element_[source.index]);
        break;
      case InputSource::Kind::kVariable:
        inputs.push_back(pulled_.values[source.index]);
        break;
      case InputSource::Kind::kArgument:
        inputs.push_back(arguments[source.index]);
        break;
      case InputSource::Kind::kPositions:
        inputs.push_back(positions_[source.index]);
        break;
      case InputSource::Kind::kContext:
        inputs.push_back(ContextTensor(source.context));
        break;
    }
  }
  return inputs;
}

std::vector<Tensor> ClosureRun::RowsBefore() const {
  std::vector<Tensor> before;
  for (const int64_t pulled : program_->rows_before) {
    before.push_back(pulled < 0 ? Tensor() : pulled_.values[static_cast<size_t>(pulled)]);
  }
  return before;
}

Tensor ClosureRun::ContextTensor(proto::ContextValue value) const {
  switch (value) {
    case proto::STEP:
      return Tensor::Scalar<int64_t>(static_cast<int64_t>(header_.step()));
    case proto::CLOSURE_ID:
      return Tensor::Scalar<int64_t>(static_cast<int64_t>(header_.closure_id()));
    case proto::WORKER_INDEX:
      return Tensor::Scalar<int64_t>(parts_->worker_position);
    // Each replica fills in its REPLICA_ID later. NUM_REPLICAS counts the replicas of all workers
    // of the gang; for any other closure, the replicas of this worker.
    case proto::NUM_REPLICAS:
      return Tensor::Scalar<int64_t>(static_cast<int64_t>(program_->runners.size()) *
                                     (group_ == nullptr ? 1 : group_->size()));
    case proto::TRAINING:
      return Tensor::Scalar<bool>(program_->training);
    default:
      return Tensor::Scalar<int64_t>(0);
  }
}

void ClosureRun::SendOutputs(ReplicatedRun::Outputs outputs) {
  std::vector<Tensor> pushed(program_->pushes.variables.size());
  std::vector<Tensor> assigned(program_->assigns.variables.size());
  absl::Status checked = parts_->task_service->CheckEpoch(header_.epoch());
  for (size_t i = 0; i < outputs.size(); ++i) {
    const OutputSink& sink = program_->outputs[i];
    if (sink.kind == OutputSink::Kind::kFetch) {
      if (header_.discard_fetches()) continue;
      for (const Tensor& fetched : outputs[i]) {
        *response_.header.add_fetches() = MetaOf(fetched);
        if (fetched.num_bytes() > 0) response_.payload.push_back(SliceOf(fetched));
      }
      continue;
    }
    const bool push = sink.kind == OutputSink::Kind::kPush;
    checked.Update(CheckOutput(outputs[i][0], sink));
    (push ? pushed : assigned)[sink.index] = std::move(outputs[i][0]);
  }
  if (next_position_.has_value()) {
    *response_.header.mutable_next_position() = *next_position_;
    *response_.header.mutable_position() = position_;
    response_.header.set_worker_position(parts_->worker_position);
  }
  if (!checked.ok()) return Finish(std::move(checked));
  {
    MutexLock lock(mutex_);
    parts_left_ = 1 + (pushed.empty() ? 0 : 1) + (assigned.empty() ? 0 : 1);
  }
  const auto acknowledged = [self = shared_from_this()](absl::Status status) {
    absl::Status error;
    {
      MutexLock lock(self->mutex_);
      self->first_error_.Update(status);
      if (--self->parts_left_ > 0) return;
      error = self->first_error_;
    }
    self->response_.header.set_round_applied(self->header_.round() > 0 &&
                                             self->open_rounds_.load() == 0);
    self->Finish(std::move(error));
  };
  // In a synchronous round, assigned values are sent by Push() and not by Assign(): the round joins
  // the values of all workers like gradients.
  const bool in_round = header_.round() > 0;
  const auto in_rounds = [this, acknowledged](absl::StatusOr<uint64_t> open_rounds) {
    open_rounds_ += open_rounds.value_or(1);
    acknowledged(open_rounds.status());
  };
  if (!pushed.empty()) Push(std::move(pushed), in_rounds);
  if (!assigned.empty()) {
    const PsClient::Plan plan(program_, &program_->assigns);
    if (in_round) {
      const std::vector<uint64_t> versions(plan->num_slices, kNotPulled);
      parts_->ps_client->Push(plan, {std::move(assigned), nullptr, versions, /*assign=*/true},
                              ContextOfTransfer(), ContextOfPush(), in_rounds);
    } else {
      parts_->ps_client->Assign(plan, std::move(assigned), ContextOfTransfer(), acknowledged);
    }
  }
  acknowledged(absl::OkStatus());
}

void ClosureRun::Push(std::vector<Tensor> values, PsClient::PushDone done) {
  PsClient::Gradients gradients{std::move(values), nullptr, PushVersions()};
  if (rows_ != nullptr) {
    auto rows = std::make_shared<RowIds>(program_->pushes.variables.size());
    // A table's gradients are pushed with the ids of the rows that were pulled.
    for (size_t i = 0; i < rows->size(); ++i) {
      const int64_t pulled = program_->pushed_rows[i];
      if (pulled >= 0) (*rows)[i] = (*rows_)[static_cast<size_t>(pulled)];
    }
    gradients.rows = std::move(rows);
  }
  parts_->ps_client->Push(PsClient::Plan(program_, &program_->pushes), std::move(gradients),
                          ContextOfTransfer(), ContextOfPush(), std::move(done));
}

absl::Status ClosureRun::CheckOutput(const Tensor& value, const OutputSink& sink) const {
  const bool push = sink.kind == OutputSink::Kind::kPush;
  const VariableType& variable =
      (push ? program_->pushes : program_->assigns).variables[sink.index];
  // An output for a table has one row per row that was looked up. An output for any other variable
  // has the variable's whole shape.
  const Shape shape =
      variable.by_rows ? RowsShape(variable, PushedRows(sink.index)) : variable.shape;
  if (value.dtype() == variable.dtype && value.shape() == shape) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("the program computed ", value.TypeString(), " for ",
                   variable.by_rows ? absl::StrCat(shape.dim(0), " rows of ") : "", "variable ",
                   variable.ToString()));
}

size_t ClosureRun::PushedRows(size_t variable) const {
  return (*rows_)[static_cast<size_t>(program_->pushed_rows[variable])].size();
}

std::vector<uint64_t> ClosureRun::PushVersions() const {
  std::vector<uint64_t> versions;
  versions.reserve(program_->pulled_ordinal.size());
  for (const int64_t ordinal : program_->pulled_ordinal) {
    versions.push_back(ordinal < 0 ? kNotPulled : pulled_.versions[static_cast<size_t>(ordinal)]);
  }
  return versions;
}

TransferContext ClosureRun::ContextOfTransfer() const {
  TransferContext context;
  context.epoch = header_.epoch();
  context.round = header_.round();
  context.caller.deadline = deadline_;
  // The epoch is checked before a call is repeated, so a closure of an earlier epoch makes no more
  // calls.
  context.caller.check = [parts = parts_, epoch = header_.epoch()] {
    return parts->task_service->CheckEpoch(epoch);
  };
  return context;
}

PushContext ClosureRun::ContextOfPush() const {
  PushContext context;
  context.closure_id = header_.closure_id();
  context.attempt = header_.attempt();
  context.worker_incarnation =
      // A fence, by which a parameter server refuses the pushes of a lost worker, names the
      // worker's session, or the worker's incarnation if the worker has no session.
      header_.session() != 0 ? header_.session() : parts_->task_service->task_ref().incarnation();
  context.watermark = header_.watermark();
  context.learning_rate = header_.learning_rate();
  // In a synchronous round, the step is the round's number, so that all pushes of the round have
  // the same step.
  context.step = header_.round() == 0 ? header_.step() : header_.round();
  context.time_ms = header_.time_ms();
  context.round = header_.round();
  context.aggregate = header_.aggregate();
  return context;
}

void ClosureRun::Finish(absl::Status status) {
  Replied reply = std::exchange(reply_, nullptr);
  if (!status.ok()) status = Described(status);
  if (IsGang()) {
    if (deadline_timer_.value != 0) parts_->world.clock.Cancel(deadline_timer_);
    // The group learns the cause before the line of gangs learns of the end. Otherwise a later
    // gang, which the line refuses because this gang failed, could end the group first, and its
    // error would be reported as the cause.
    if (!status.ok()) parts_->groups->End(header_.gang(), status);
    parts_->gangs.End(header_.gang(), status.ok());
  }
  proto::StepTimes* const times = response_.header.mutable_times();
  times->set_input_us(Microseconds(marks_.start, marks_.batch));
  // A pull by rows begins only when the batch is there, so its time counts from then.
  times->set_pull_us(Microseconds(rows_ != nullptr ? marks_.batch : marks_.start, marks_.pulled));
  times->set_queue_us(Microseconds(std::max(marks_.batch, marks_.pulled), marks_.compute));
  times->set_compute_us(Microseconds(marks_.compute, marks_.computed));
  times->set_push_us(Microseconds(marks_.computed, parts_->world.clock.Now()));
  if (!status.ok()) return reply(std::move(status));
  reply(std::move(response_));
}

absl::Status ClosureRun::Described(const absl::Status& error) const {
  absl::Status status = error;
  if (IsOutOfFiles(status)) {
    status = Annotate(status,
                      absl::StrCat(TaskName(WithoutIncarnation(parts_->task_service->task_ref())),
                                   " has no files left to open"));
  }
  proto::ErrorDetail detail = DetailOf(status);
  // An error that came from another task keeps its class and its origin.
  if (detail.error_class() == proto::ERROR_CLASS_UNKNOWN) {
    detail.set_error_class(proto::APPLICATION);
  }
  if (!detail.has_origin()) *detail.mutable_origin() = parts_->task_service->task_ref();
  // An error with which another gang ended the group keeps the id of the closure that failed.
  if (detail.closure_id() == 0) {
    detail.set_closure_id(header_.closure_id());
    detail.set_attempt(header_.attempt());
  }
  return WithDetail(status, detail);
}

// The functions below make the closure of a gang wait until all earlier gangs have ended and all
// members of the group are there.

void ClosureRun::AwaitTurn() {
  if (!IsGang()) return StartPulls();
  EndAtDeadline();
  parts_->gangs.Wait(header_.gang(), [self = shared_from_this()](absl::Status refused) {
    if (!refused.ok()) return self->PartReady(refused);
    self->JoinGroup();
  });
}

// Plans the end of a gang at the deadline of its caller. Without this timer, the gang could wait
// forever for an earlier gang or for a member that never arrives.
void ClosureRun::EndAtDeadline() {
  if (deadline_ == absl::InfiniteFuture()) return;
  deadline_timer_ = parts_->world.clock.CallAt(deadline_, [parts = parts_, gang = header_.gang()] {
    parts->groups->End(
        gang, MakeError(absl::StatusCode::kDeadlineExceeded,
                        "nobody waits for this synchronous step any more", proto::TRANSIENT));
    parts->gangs.End(gang, /*ended_well=*/false);
  });
}

void ClosureRun::JoinGroup() {
  parts_->groups->Join(header_.gang(), [self = shared_from_this()](
                                           absl::StatusOr<std::shared_ptr<GangGroup>> group) {
    if (!group.ok()) return self->PartReady(group.status());
    self->group_ = *std::move(group);
    // `group_` is set before PartReady(), so that Compute() sees the group.
    if (self->program_->pulls.empty()) return self->PartReady(absl::OkStatus());
    self->StartPulls();
  });
}

}  // namespace cohort
