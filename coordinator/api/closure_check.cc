#include "coordinator/api/closure_check.h"

#include <algorithm>
#include <map>
#include <string>

#include "absl/strings/str_cat.h"
#include "common/base/status.h"
#include "common/program/aggregation.h"
#include "coordinator/schedule/closure.h"

namespace cohort {

namespace {

// Checks that a handle (of a program, data set or iterator) is not null and that the coordinator
// `owner` made it. Each coordinator numbers its own resources, so with another coordinator's id the
// workers would find the wrong resource.
template <typename Handle>
absl::Status CheckHandle(const Handle* handle, absl::string_view what, absl::string_view maker,
                         uint64_t owner) {
  if (handle == nullptr) {
    return absl::InvalidArgumentError(
        absl::StrCat("Schedule got no ", what, ": give it what ", maker, " returned"));
  }
  if (handle->owner == owner) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "Schedule got the ", what, " of another coordinator: make it with ", maker, " of this one"));
}

bool IsShardedByWorker(const proto::DatasetSpec& spec) {
  return std::any_of(spec.transforms().begin(), spec.transforms().end(),
                     [](const auto& transform) { return transform.shard().by_worker(); });
}

// Checks the handles and values that a closure consists of: its program, its arguments and its
// input.
absl::Status CheckParts(const RegisteredProgram* program, const ScheduleOptions& options,
                        uint64_t owner) {
  RETURN_IF_ERROR(CheckHandle(program, "program", "Register", owner));
  for (size_t i = 0; i < options.arguments.size(); ++i) {
    if (const auto* value = std::get_if<RemoteValue>(&options.arguments[i])) {
      if (value->has_value() && value->owner() == owner) continue;
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
    return CheckHandle(iterator->get(), "iterator", "MakeIterator", owner);
  }
  if (const auto* split = std::get_if<SplitInput>(&options.input)) {
    RETURN_IF_ERROR(CheckHandle(split->dataset.get(), "data set", "CreatePerWorkerDataset", owner));
    if (IsShardedByWorker(split->dataset->spec)) {
      return absl::InvalidArgumentError(
          "a split names the same examples on every worker, and this data set is sharded by "
          "worker: use an iterator");
    }
  }
  return absl::OkStatus();
}

// Checks that the program may update its variables in a synchronous round. An update is in replica
// context, which not every variable allows (common/program/aggregation.h), if the round has several
// closures or the closure has several replicas.
absl::Status CheckInReplicaContext(const RegisteredProgram& program,
                                   const ScheduleOptions& closure) {
  const Round& round = closure.round;
  const bool alone =
      round.aggregate <= 1 && program.request.program().replicas().devices_size() <= 1;
  std::map<std::string, ReplicaUpdate> updates;
  for (const proto::OutputBinding& output : program.request.program().outputs()) {
    if (output.has_push()) updates[output.push()] = ReplicaUpdate::kPush;
    if (output.has_assign()) updates[output.assign()] = ReplicaUpdate::kAssign;
  }
  for (const proto::VariableLayout& layout : program.request.variables()) {
    const auto update = updates.find(layout.name());
    // A variable with one value per replica is skipped: each replica updates its own value.
    if (update == updates.end() || layout.replicas() > 0) continue;
    const ReplicaContext replicas{layout.name(), layout.rule(), layout.aggregation(),
                                  update->second};
    if (!alone) RETURN_IF_ERROR(replicas.Check());
  }
  if (!updates.empty() || closure.gang) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("program '", program.request.program().name(),
                   "' changes no variable: a round waits for updates; schedule it without one"));
}

// Checks the rules that a closure of a synchronous round must obey, such as the limit of the
// closures in one round; the errors state the rules.
absl::Status CheckRound(const RegisteredProgram& program, const ScheduleOptions& closure,
                        const ClusterCoordinatorOptions& options) {
  RETURN_IF_ERROR(CheckInReplicaContext(program, closure));
  if (closure.gang && closure.round.aggregate != 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("a gang closure is a round of one, not of ", closure.round.aggregate));
  }
  const bool by_iterator = std::holds_alternative<IteratorHandle>(closure.input);
  if (closure.gang && by_iterator && options.mirrored &&
      options.cluster.NumTasks(Role::kWorker) > 1) {
    return absl::InvalidArgumentError(
        "a gang of several workers shares out one batch, and an iterator gives each worker "
        "another: schedule it with a SplitInput");
  }
  // A round may have at most half as many closures as the queue holds, so that the queue never
  // fills before the round is complete. For the same reason a round may have at most half as many
  // closures as the redo log holds, which keeps closures that may run again after a loss.
  const size_t room = std::min(options.queue_bound, options.redo_max) / 2;
  if (closure.round.aggregate < 1 || closure.round.aggregate > room) {
    return absl::InvalidArgumentError(
        absl::StrCat("a round of ", closure.round.aggregate, " closures: it has from 1 to ", room,
                     ", half of what the queue holds and of what may run again after a loss"));
  }
  if (closure.replayable && !options.steps_ahead_max) return absl::OkStatus();
  return absl::InvalidArgumentError(
      "closures of a round have to be replayable, and staleness is not bounded besides");
}

// Checks a closure of several training steps: it has at most kClosureStepsMax steps, reads a
// SplitInput, and belongs to no round of several closures.
absl::Status CheckSteps(const ScheduleOptions& closure) {
  if (closure.later_steps.empty()) return absl::OkStatus();
  const size_t steps = 1 + closure.later_steps.size();
  if (steps > kClosureStepsMax) {
    return absl::InvalidArgumentError(
        absl::StrCat("a closure of ", steps, " steps: it has at most ", kClosureStepsMax));
  }
  if (!std::holds_alternative<SplitInput>(closure.input)) {
    return absl::InvalidArgumentError(
        absl::StrCat("a closure of ", steps,
                     " steps says of each which batch it reads: schedule it with a SplitInput"));
  }
  if (closure.round.number == 0 || closure.gang) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "a closure of ", steps,
      " steps is in no round of several closures: each of its steps would "
      "have to wait for the others' of the round before; schedule its steps one by one"));
}

}  // namespace

absl::Status CheckClosure(const RegisteredProgram* program, const ScheduleOptions& closure,
                          const ClosureRules& rules) {
  RETURN_IF_ERROR(CheckParts(program, closure, rules.owner));
  RETURN_IF_ERROR(CheckSteps(closure));
  if (closure.gang && closure.round.number == 0) {
    return absl::InvalidArgumentError(
        "a gang closure needs a round, which is its update's number, or that of the next update if "
        "it changes no variable");
  }
  return closure.round.number == 0 ? absl::OkStatus()
                                   : CheckRound(*program, closure, rules.options);
}

}  // namespace cohort
