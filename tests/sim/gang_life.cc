#include "tests/sim/gang_life.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/status.h"
#include "common/wire/error_detail.h"

namespace cohort {

namespace {
// Of a cluster where nothing strikes any more.
constexpr absl::Duration kInStepMax = absl::Minutes(1);
}  // namespace

bool GangLife::LifeWaiter::Wait(const Event& event, absl::Duration timeout) {
  life_.actors_.Wait([&] { return life_.IsOver() || event.HasHappened(); }, timeout);
  return event.HasHappened() && !life_.killed_;
}

GangLife::GangLife(World world, SimActors& actors, const GangPlan& plan, Options options)
    : world_(world),
      actors_(actors),
      plan_(plan),
      options_(std::move(options)),
      waiter_(*this),
      rng_(options_.incarnation) {}

void GangLife::Run() {
  error_ = Live();
  if (killed_) {
    end_ = End::kKilled;
  } else if (error_.ok()) {
    end_ = End::kFinished;
  } else if (ClassOf(error_) == proto::STALE) {
    end_ = End::kSuperseded;
  } else {
    end_ = End::kFailed;
  }
  options_.note(absl::StrCat(options_.host, " ends: ", error_.ToString()));
  coordinator_.reset();
}

absl::Status GangLife::Live() {
  RETURN_IF_ERROR(Annotate(Start(), "start"));
  RETURN_IF_ERROR(DoItems());
  return Annotate(Finish(), "finish");
}

absl::Status GangLife::Start() {
  ClusterCoordinator::Options options;
  options.cluster = options_.cluster;
  options.homes = Role::kWorker;
  options.mirrored = true;
  options.job = "gangs";
  options.workers.min = plan_.gang_min;
  options.attempts_max = 1000;
  options.quarantine_after = 1000;
  options.queue_bound = plan_.queue_bound;
  options.closures_in_flight = plan_.closures_in_flight;
  options.redo_max = plan_.redo_max;
  options.lease = plan_.lease;
  options.call_timeout = plan_.lease * 4;
  options.closure_timeout = plan_.lease * 20;
  options.incarnation = options_.incarnation;
  options.recovery_directory = options_.directory;
  options.checkpoint_chunk_bytes = plan_.chunk_bytes;
  options.recovery_interval = plan_.recovery_interval;
  ASSIGN_OR_RETURN(auto coordinator,
                   ClusterCoordinator::Connect(world_, waiter_, std::move(options)));
  coordinator_ = std::move(coordinator);
  ASSIGN_OR_RETURN(programs_, MakeGangPrograms(*coordinator_, plan_));
  ASSIGN_OR_RETURN(const auto left, coordinator_->ResumeState());
  if (!left.has_value()) return absl::OkStatus();
  for (const uint64_t id : left->open()) {
    if (coordinator_->NextId().value < id) coordinator_->SkipTo(ClosureId{id});
    RETURN_IF_ERROR(ScheduleItem(id));
  }
  if (coordinator_->NextId().value < left->next_id()) {
    coordinator_->SkipTo(ClosureId{left->next_id()});
  }
  return absl::OkStatus();
}

absl::Status GangLife::ScheduleItem(uint64_t closure) {
  absl::StatusOr<RemoteValue> result = coordinator_->Schedule(
      programs_.of.at(plan_.Of(closure)), OptionsFor(plan_, programs_, closure));
  options_.note(absl::StrCat(options_.host, " schedules closure ", closure, " step ",
                             plan_.StepOf(closure), ": ", result.status().ToString()));
  RETURN_IF_ERROR(result.status());
  if (coordinator_->NextId().value != closure + 1) {
    options_.violate(absl::StrCat("closure ", closure, " was scheduled, and the next id is ",
                                  coordinator_->NextId().value));
  }
  results_[closure] = *std::move(result);
  return absl::OkStatus();
}

absl::Status GangLife::DoItems() {
  while (coordinator_->NextId().value <= plan_.items.size()) {
    RETURN_IF_ERROR(Annotate(ScheduleItem(coordinator_->NextId().value), "Schedule"));
    if (plan_.pace > 0) {
      actors_.Wait([this] { return IsOver(); }, absl::Milliseconds(rng_.Below(plan_.pace)));
    }
    RETURN_IF_ERROR(Annotate(Disturb(), "Done, Join or Fetch"));
  }
  return JoinAll();
}

// Calls in between, as a program makes them.
absl::Status GangLife::Disturb() {
  const uint64_t draw = rng_.Below(40);
  if (draw == 0) return coordinator_->Done().status();
  if (draw == 1) return JoinAll();
  if (draw == 2) {
    const absl::Status joined = coordinator_->Join(absl::Milliseconds(rng_.Below(50)));
    return absl::IsDeadlineExceeded(joined) && !IsOver() ? absl::OkStatus() : joined;
  }
  if (draw == 3) return coordinator_->Fetch(results_.rbegin()->second).status();
  return absl::OkStatus();
}

absl::Status GangLife::JoinAll() {
  const absl::Status joined = Annotate(coordinator_->Join(), "Join");
  options_.note(absl::StrCat(options_.host, " joins: ", joined.ToString()));
  RETURN_IF_ERROR(joined);
  CheckResults();
  return absl::OkStatus();
}

void GangLife::CheckBounds() {
  if (coordinator_ == nullptr) return;
  const Scheduler::Stats stats = coordinator_->stats();
  // A restore queues closures again that were done: they come on top of the bound.
  if (stats.recoveries <= 1 && stats.queued + stats.in_flight > plan_.queue_bound) {
    options_.violate(absl::StrCat("the queue's bound is ", plan_.queue_bound, ": ",
                                  stats.ToString()));
  }
}

std::string GangLife::DescribeWait() const {
  if (coordinator_ == nullptr) return absl::StrCat(options_.host, " has not begun");
  return absl::StrCat(options_.host, ": ", coordinator_->scheduler()->DescribeWait(), "; ",
                      coordinator_->ClusterReport());
}

// After a Join every result is there.
void GangLife::CheckResults() {
  for (const auto& [closure, result] : results_) {
    if (!result.state().IsReady()) {
      options_.violate(absl::StrCat("Join returned and closure ", closure, " has no result"));
      continue;
    }
    const absl::StatusOr<FetchedTensors>& fetched = result.state().result();
    if (ClassOf(fetched.status()) == proto::STALE) continue;  // the next call says so
    if (!fetched.ok()) {
      options_.violate(absl::StrCat("closure ", closure, " ended with ",
                                    fetched.status().ToString()));
    } else if (plan_.Of(closure) == GangPlan::Item::kStep &&
               fetched->at(static_cast<size_t>(StepFetch::kSum)).data<float>()[0] !=
                   plan_.BatchOf(plan_.StepOf(closure)).sum) {
      options_.violate(absl::StrCat("closure ", closure, " has the result of another batch"));
    }
  }
}

absl::Status GangLife::Finish() {
  options_.on_all_done();
  const auto in_step = [this] { return coordinator_->members()->num_ps() == plan_.workers; };
  // A loss that nobody has noticed yet is over behind the first round.
  constexpr int kRounds = 2;
  for (int round = 1; round <= kRounds; ++round) {
    actors_.Wait([&] { return IsOver() || in_step(); }, kInStepMax);
    if (killed_) return absl::CancelledError("killed");
    RETURN_IF_ERROR(coordinator_->Join());
    for (int worker = 0; worker < plan_.workers && in_step(); ++worker) {
      RETURN_IF_ERROR(CheckCopy(worker));
    }
    if (round < kRounds) actors_.Wait([&] { return IsOver(); }, plan_.lease * 2);
  }
  if (!in_step() && !IsOver()) {
    options_.violate(absl::StrCat("of ", plan_.workers, " workers ",
                                  coordinator_->members()->num_ps(), " are in step in the end: ",
                                  DescribeWait()));
  }
  return absl::OkStatus();
}

absl::Status GangLife::CheckCopy(int worker) {
  proto::VariableLayout copy = programs_.variable;
  copy.set_mirrored(false);  // of this home
  for (proto::SliceHome& slice : *copy.mutable_slices()) {
    slice.set_ps(static_cast<uint32_t>(worker));
  }
  const absl::StatusOr<Tensor> value = coordinator_->ps().Read(copy);
  // Lost since it was asked for.
  if (absl::IsInvalidArgument(value.status()) || ClassOf(value.status()) == proto::PS_LOST) {
    return absl::OkStatus();
  }
  RETURN_IF_ERROR(value.status());
  const float wanted = plan_.ValueBehind(plan_.num_steps());
  for (const float element : value->span<float>()) {
    if (element == wanted) continue;
    options_.violate(absl::StrCat("in the end worker:", worker, " has ", element, " instead of ",
                                  wanted));
    break;
  }
  return absl::OkStatus();
}

}  // namespace cohort
