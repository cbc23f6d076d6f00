#include "coordinator/api/coordinator_impl.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/status.h"
#include "common/wire/error_detail.h"
#include "coordinator/cluster/await.h"
#include "coordinator/strategy/variable_pieces.h"

namespace cohort {

CoordinatorImpl::CoordinatorImpl(World world, Waiter& waiter, ClusterCoordinatorOptions job)
    : world(world),
      waiter(waiter),
      options(std::move(job)),
      parts(MakeCoordinatorParts(world, waiter, options)),
      creator(options.cluster.Indices(options.homes), options.partitioner, options.placement) {}

absl::StatusOr<Variable> CoordinatorImpl::CreateVariable(const VariableSpec& spec,
                                                         const proto::UpdateRule& rule,
                                                         const std::string& colocate_with) {
  VariableOptions variable_options;
  variable_options.colocate_with = colocate_with;
  variable_options.replicas = options.replicas;
  FindLeftSlices();
  proto::VariableLayout layout;
  {
    MutexLock lock(mutex);
    ASSIGN_OR_RETURN(layout, creator.CreateVariable(spec, rule, variable_options));
    const SliceStarts left = left_slices.value_or(SliceStarts());
    if (left.count(spec.name) > 0) CutAt(left.at(spec.name), layout);
    // The lock also protects next_slice_id, because slice ids must be unique among all variables.
    CutPieces(options.slice_bytes_max, next_slice_id, layout);
  }
  layout.set_mirrored(options.mirrored);
  RETURN_IF_ERROR(CreateVariables({layout}));
  return Variable(std::move(layout), options.homes);
}

void CoordinatorImpl::FindLeftSlices() {
  {
    MutexLock lock(mutex);
    if (left_slices.has_value()) return;
  }
  absl::StatusOr<SliceStarts> left = LeftSlices();
  MutexLock lock(mutex);
  // A checkpoint that cannot be read is an error of ResumeState, which reads it too.
  if (left.ok()) left_slices = *std::move(left);
}

absl::Status CoordinatorImpl::CreateVariables(absl::Span<const proto::VariableLayout> variables) {
  // Before any home creates a variable, it is checked that the homes have enough memory.
  RETURN_IF_ERROR(parts.memory->Add(variables));
  if (parts.copies != nullptr) parts.copies->AddVariables({variables.begin(), variables.end()});
  RETURN_IF_ERROR(parts.ps->CreateVariables(variables));
  {
    MutexLock lock(mutex);
    for (const proto::VariableLayout& layout : variables) layouts[layout.name()] = layout;
  }
  // Older checkpoints do not contain the new variables and so could not restore them. Therefore
  // this call waits for a new checkpoint.
  if (parts.recovery == nullptr) return absl::OkStatus();
  return WaitFor("a checkpoint with the new variables", [&](Recovery::Done done) {
    parts.recovery->AddVariables({variables.begin(), variables.end()}, std::move(done));
  });
}

absl::Status CoordinatorImpl::UntilDurable(absl::FunctionRef<absl::Status()> change) {
  // A change is not a closure, so no replay repeats it. If a recovery ran meanwhile, it has put the
  // variables back to what they were before, and the change is made again.
  while (true) {
    const uint64_t epoch = parts.cluster->epoch();
    RETURN_IF_ERROR(change());
    RETURN_IF_ERROR(MakeDurable());
    if (parts.cluster->epoch() == epoch) return absl::OkStatus();
  }
}

absl::Status CoordinatorImpl::MakeDurable() {
  if (parts.recovery == nullptr) return absl::OkStatus();
  return WaitFor("a recovery checkpoint",
                 [&](Recovery::Done done) { parts.recovery->Checkpoint(std::move(done)); });
}

absl::StatusOr<RecoveryStore::Left> CoordinatorImpl::ReadLeft() const {
  const RecoveryStore store(world.files, options.recovery_directory);
  absl::StatusOr<RecoveryStore::Left> left = store.ReadLeft();
  if (left.ok()) {
    RETURN_IF_ERROR(store.CheckJob(*left, options.job));
    return left;
  }
  proto::ErrorDetail detail;
  detail.set_error_class(proto::APPLICATION);
  return WithDetail(Annotate(left.status(), absl::StrCat("the state of an earlier coordinator in ",
                                                         options.recovery_directory)),
                    detail);
}

absl::StatusOr<SliceStarts> CoordinatorImpl::LeftSlices() const {
  if (parts.recovery == nullptr) return SliceStarts();
  ASSIGN_OR_RETURN(const RecoveryStore::Left left, ReadLeft());
  return RecoveryStore(world.files, options.recovery_directory).ReadSlices(left);
}

DataQuestion CoordinatorImpl::QuestionAbout(const RegisteredDataset& dataset) const {
  return {dataset.id, dataset.spec, options.connect_timeout, options.call_timeout};
}

absl::Status CoordinatorImpl::WaitFor(absl::string_view what,
                                      absl::FunctionRef<void(Recovery::Done)> start) {
  return Await<bool>(waiter, absl::InfiniteDuration(), what,
                     [&](auto done) { start(StatusTo(std::move(done))); })
      .status();
}

absl::Status CoordinatorImpl::Wait(absl::Duration timeout, absl::string_view what,
                                   absl::FunctionRef<WaitId(Scheduler::Done)> start) {
  return AwaitOrAbandon<bool>(
             waiter, timeout, [&] { return TimedOut(timeout, what); },
             [&](auto done) {
               return start([done = std::move(done)](absl::Status error) mutable {
                 if (!error.ok()) return done(error);
                 done(true);
               });
             },
             [&](WaitId wait) { return parts.scheduler->Abandon(wait); })
      .status();
}

absl::Status CoordinatorImpl::TimedOut(absl::Duration timeout, absl::string_view what) const {
  std::string text = absl::StrCat("waited ", absl::FormatDuration(timeout), " for ", what, ": ",
                                  parts.scheduler->DescribeWait());
  proto::ErrorDetail detail;
  // After a timeout nothing is lost, so the caller may wait again.
  detail.set_error_class(proto::TRANSIENT);
  absl::Duration longest;
  for (const Cluster::Silent& silent : parts.cluster->silent()) {
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
  for (const std::string& apart : parts.cluster->ReportApart()) absl::StrAppend(&text, "; ", apart);
  return WithDetail(absl::DeadlineExceededError(text), detail);
}

}  // namespace cohort
