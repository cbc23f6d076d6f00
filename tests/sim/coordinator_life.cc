#include "tests/sim/coordinator_life.h"

#include <algorithm>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/base/status.h"
#include "common/wire/error_detail.h"

namespace cohort {

namespace {
constexpr int kErrorsMax = 50;  // that one life has to expect
}  // namespace

bool CoordinatorLife::LifeWaiter::Wait(const Event& event, absl::Duration timeout) {
  const auto over = [this] { return life_.killed_ || life_.gave_up_; };
  life_.actors_.Wait([&] { return over() || event.HasHappened(); }, timeout);
  return event.HasHappened() && !life_.killed_;
}

CoordinatorLife::CoordinatorLife(World world, SimActors& actors, const SeedPlan& plan,
                                 Options options)
    : world_(world),
      actors_(actors),
      plan_(plan),
      options_(std::move(options)),
      waiter_(*this),
      rng_(options_.incarnation) {}

void CoordinatorLife::Run() {
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

absl::Status CoordinatorLife::Live() {
  RETURN_IF_ERROR(Annotate(Start(), "start"));
  RETURN_IF_ERROR(DoItems());
  return Annotate(Finish(), "finish");
}

absl::Status CoordinatorLife::Start() {
  ClusterCoordinator::Options options;
  options.cluster = options_.cluster;
  options.job = "counters";
  PartitionerSpec partitioner;
  partitioner = FixedShardsPartitionerSpec{plan_.slices};
  ASSIGN_OR_RETURN(options.partitioner, MakePartitioner(partitioner));
  options.attempts_max = options.quarantine_after = 1000;
  options.queue_bound = plan_.queue_bound;
  options.closures_in_flight = plan_.closures_in_flight;
  options.steps_ahead_max = plan_.steps_ahead_max;
  options.redo_max = plan_.redo_max;
  options.lease = plan_.lease;
  options.call_timeout = plan_.lease * 4;
  options.closure_timeout = plan_.lease * 8;
  options.incarnation = options_.incarnation;
  options.recovery_directory = options_.directory;
  options.checkpoint_chunk_bytes = plan_.chunk_bytes;
  options.recovery_interval = plan_.recovery_interval;
  ASSIGN_OR_RETURN(auto coordinator,
                   ClusterCoordinator::Connect(world_, waiter_, std::move(options)));
  coordinator_ = std::move(coordinator);
  ASSIGN_OR_RETURN(programs_, MakeSeedPrograms(*coordinator_, plan_));
  coordinator_->SetApplicationState([this](const Cut& cut) { return log_.Save(cut); });
  ASSIGN_OR_RETURN(const auto left, coordinator_->ResumeState());
  if (!left.has_value()) return absl::OkStatus();
  log_.Load(left->application());
  return plan_.rounds ? ResumeOpenRounds(*left) : ResumeOpenItems(*left);
}

absl::Status CoordinatorLife::ResumeOpenItems(const proto::CoordinatorState& left) {
  for (const uint64_t id : left.open()) {
    if (coordinator_->NextId().value < id) coordinator_->SkipTo(ClosureId{id});
    const SeedWork work = log_.entries().at(id).work;
    KeepPace(plan_.resume_pace);
    for (absl::Status status = ScheduleWork(work); !status.ok(); status = ScheduleWork(work)) {
      RETURN_IF_ERROR(Expected(status));
    }
  }
  if (coordinator_->NextId().value < left.next_id()) {
    coordinator_->SkipTo(ClosureId{left.next_id()});
  }
  return absl::OkStatus();
}

void CoordinatorLife::KeepPace(uint32_t milliseconds_max) {
  if (milliseconds_max == 0) return;
  actors_.Wait([this] { return killed_ || gave_up_; },
               absl::Milliseconds(rng_.Below(milliseconds_max)));
}

absl::Status CoordinatorLife::ScheduleItem(int item) {
  if (!plan_.IsRound(item)) return ScheduleWork({item});
  const std::map<uint64_t, ItemLog::RoundCount> rounds = log_.Rounds();
  return ScheduleRound({item, rounds.empty() ? 1 : rounds.rbegin()->first + 1});
}

absl::Status CoordinatorLife::ScheduleWork(const SeedWork& work) {
  // Before the call: a checkpoint may be taken while it waits.
  const uint64_t id = coordinator_->NextId().value;
  ItemLog::Entry& entry = log_.entries()[id];
  entry = ItemLog::Entry();
  entry.work = work;
  absl::StatusOr<RemoteValue> result =
      coordinator_->Schedule(programs_.of.at(plan_.KindOf(work)), OptionsFor(plan_, work));
  options_.note(absl::StrCat(options_.host, " schedules closure ", id, " item ", work.item, ": ",
                             result.status().ToString()));
  if (!result.ok()) {
    log_.entries().erase(id);
    return result.status();
  }
  entry.result = *std::move(result);
  if (coordinator_->NextId().value != id + 1) {
    options_.violate(absl::StrCat("closure ", id, " was scheduled, and the next id is ",
                                  coordinator_->NextId().value));
  }
  return absl::OkStatus();
}

std::vector<int> CoordinatorLife::ItemsLeft() {
  std::vector<bool> ended(plan_.items.size());
  log_.Update();
  for (const auto& [number, round] : log_.Rounds()) {
    const bool fails = plan_.Of(round.item) == SeedPlan::Item::kFail;
    if (round.done < plan_.rounds->aggregate && !(fails && round.failed)) continue;
    const auto item = static_cast<size_t>(round.item);
    // One that fails is never scheduled again, and any other is done in one round.
    if (ended[item]) {
      options_.violate(absl::StrCat("item ", item, " is in two rounds, one of them ", number));
    }
    ended[item] = true;
  }
  for (const auto& [id, entry] : log_.entries()) {
    if (entry.state == ItemLog::State::kCancelled || entry.work.round > 0) continue;
    const auto item = static_cast<size_t>(entry.work.item);
    if (ended[item]) {
      options_.violate(absl::StrCat("item ", item, " is in two closures, one of them ", id));
    }
    ended[item] = true;
  }
  std::vector<int> left;
  for (size_t i = 0; i < ended.size(); ++i) {
    if (!ended[i]) left.push_back(static_cast<int>(i));
  }
  return left;
}

bool CoordinatorLife::IsByDisk(const absl::Status& error) const {
  return options_.disk_was_hit() && absl::StrContains(error.message(), options_.directory) &&
         !absl::StrContains(error.message(), "could not be put back to its last checkpoint");
}

absl::Status CoordinatorLife::Expected(const absl::Status& error) {
  if (killed_ || gave_up_ || ClassOf(error) == proto::STALE) return error;
  if (ClassOf(error) == proto::APPLICATION && absl::StrContains(error.message(), "picky")) {
    return absl::OkStatus();
  }
  if (IsByDisk(error)) return absl::OkStatus();
  return error;
}

absl::Status CoordinatorLife::DoItems() {
  int errors = 0;
  const auto expected = [&](const absl::Status& status, absl::string_view where) {
    if (status.ok()) return absl::OkStatus();
    if (++errors > kErrorsMax) return Annotate(status, "the same again and again");
    return Annotate(Expected(status), where);
  };
  // At least once: items that an earlier coordinator has left open are under way.
  std::vector<int> left;
  do {
    for (const int item : left) {
      const absl::Status scheduled = ScheduleItem(item);
      RETURN_IF_ERROR(expected(scheduled, "Schedule"));
      if (!scheduled.ok()) break;  // what was scheduled may have been cancelled
      KeepPace(plan_.pace);
      RETURN_IF_ERROR(expected(Disturb(), "Done, Join or Fetch"));
    }
    RETURN_IF_ERROR(expected(JoinAll(), "Join"));
    CheckResults();
    left = ItemsLeft();
  } while (!left.empty());
  return absl::OkStatus();
}

// Calls in between, as a program makes them.
absl::Status CoordinatorLife::Disturb() {
  const uint64_t draw = rng_.Below(40);
  if (draw == 0) return coordinator_->Done().status();
  if (draw == 1) return JoinAll();
  if (draw == 2) {
    const absl::Status joined = coordinator_->Join(absl::Milliseconds(rng_.Below(50)));
    return absl::IsDeadlineExceeded(joined) && !killed_ && !gave_up_ ? absl::OkStatus() : joined;
  }
  if (draw == 3) {
    const auto& entries = log_.entries();
    auto entry = entries.begin();
    std::advance(entry, static_cast<int64_t>(rng_.Below(entries.size())));
    if (!entry->second.result.has_value()) return absl::OkStatus();
    const auto fetched = coordinator_->Fetch(entry->second.result);
    return absl::IsCancelled(fetched.status()) ? absl::OkStatus() : fetched.status();
  }
  return absl::OkStatus();
}

absl::Status CoordinatorLife::JoinAll() {
  const absl::Status joined = coordinator_->Join();
  options_.note(absl::StrCat(options_.host, " joins: ", joined.ToString()));
  RETURN_IF_ERROR(joined);
  const Scheduler::Stats stats = coordinator_->stats();
  if (stats.queued + stats.in_flight > 0) {
    options_.violate(absl::StrCat("Join returned with ", stats.ToString()));
  }
  return absl::OkStatus();
}

void CoordinatorLife::CheckBounds() {
  if (coordinator_ == nullptr) return;
  const Scheduler::Stats stats = coordinator_->stats();
  // A restore queues closures again that were done: they come on top of the bound.
  if (stats.recoveries <= 1 && stats.queued + stats.in_flight > plan_.queue_bound) {
    options_.violate(absl::StrCat("the queue's bound is ", plan_.queue_bound, ": ",
                                  stats.ToString()));
  }
}

// After a Join every result is there, and fetching it twice gives it twice.
void CoordinatorLife::CheckResults() {
  for (const auto& [id, entry] : log_.entries()) {
    if (!entry.result.has_value()) continue;
    if (!entry.result.state().IsReady()) {
      options_.violate(absl::StrCat("Join returned and closure ", id, " has no result"));
      continue;
    }
    const bool fails = plan_.KindOf(entry.work) == SeedPlan::Item::kFail;
    const absl::Status& status = entry.result.state().result().status();
    if (!log_.IsAsFirstSeen(entry)) {
      options_.violate(absl::StrCat("closure ", id, " has another result than at first"));
    }
    // The job was taken over, or given up: the next call says so.
    if (ClassOf(status) == proto::STALE) continue;
    if (IsByDisk(status)) continue;
    if (status.ok() ? fails : !absl::IsCancelled(status) && !fails) {
      options_.violate(absl::StrCat("closure ", id, " of item ", entry.work.item, " ended with ",
                                    status.ToString()));
    }
  }
}

// Reads twice: the first makes sure that a loss which nobody has noticed yet is over.
absl::Status CoordinatorLife::Finish() {
  options_.on_all_done();
  std::vector<Tensor> values;
  for (int i = 0; i < 2; ++i) {
    values.clear();
    for (const Variable& variable : programs_.variables) {
      ASSIGN_OR_RETURN(Tensor value, coordinator_->Read(variable));
      values.push_back(std::move(value));
    }
  }
  if (options_.check(*this, values)) return absl::OkStatus();
  // Taken over in the last moment; it is told so.
  while (true) {
    RETURN_IF_ERROR(coordinator_->Join());
    actors_.Wait([this] { return killed_ || gave_up_; }, plan_.lease);
    if (killed_ || gave_up_) return absl::CancelledError("stopped while it was taken over");
  }
}

}  // namespace cohort
