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

CoordinatorLife::CoordinatorLife(World world, SimActors& actors, const SeedPlan& plan,
                                 Options options, Checks checks)
    : JobLife(world, actors, plan, std::move(options)), plan_(plan), checks_(std::move(checks)) {}

absl::Status CoordinatorLife::Start() {
  ClusterCoordinator::Options options = CoordinatorOptions();
  options.job = "counters";
  PartitionerSpec partitioner;
  partitioner = FixedShardsPartitionerSpec{plan_.slices};
  ASSIGN_OR_RETURN(options.partitioner, MakePartitioner(partitioner));
  options.steps_ahead_max = plan_.steps_ahead_max;
  options.closure_timeout = plan_.lease * 8;
  RETURN_IF_ERROR(Connect(std::move(options)));
  ASSIGN_OR_RETURN(programs_, MakeSeedPrograms(coordinator(), plan_));
  coordinator().SetApplicationState([this](const Cut& cut) { return log_.Save(cut); });
  ASSIGN_OR_RETURN(const auto left, coordinator().ResumeState());
  if (!left.has_value()) return absl::OkStatus();
  log_.Load(left->application());
  return plan_.rounds ? ResumeOpenRounds(*left) : ResumeOpenItems(*left);
}

absl::Status CoordinatorLife::ResumeOpenItems(const proto::CoordinatorState& left) {
  for (const uint64_t id : left.open()) {
    SkipTo(id);
    const SeedWork work = log_.entries().at(id).work;
    KeepPace(plan_.resume_pace);
    for (absl::Status status = ScheduleWork(work); !status.ok(); status = ScheduleWork(work)) {
      RETURN_IF_ERROR(Expected(status));
    }
  }
  SkipTo(left.next_id());
  return absl::OkStatus();
}

absl::Status CoordinatorLife::ScheduleItem(int item) {
  if (!plan_.IsRound(item)) return ScheduleWork({item});
  const std::map<uint64_t, ItemLog::RoundCount> rounds = log_.Rounds();
  return ScheduleRound({item, rounds.empty() ? 1 : rounds.rbegin()->first + 1});
}

absl::Status CoordinatorLife::ScheduleWork(const SeedWork& work) {
  // Before the call: a checkpoint may be taken while it waits.
  const uint64_t id = coordinator().NextId().value;
  ItemLog::Entry& entry = log_.entries()[id];
  entry = ItemLog::Entry();
  entry.work = work;
  absl::StatusOr<RemoteValue> result =
      coordinator().Schedule(programs_.of.at(plan_.KindOf(work)), OptionsFor(plan_, work));
  options().note(absl::StrCat(options().host, " schedules closure ", id, " item ", work.item, ": ",
                              result.status().ToString()));
  if (!result.ok()) {
    log_.entries().erase(id);
    return result.status();
  }
  entry.result = *std::move(result);
  CheckNextId(id, 1);
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
      options().violate(absl::StrCat("item ", item, " is in two rounds, one of them ", number));
    }
    ended[item] = true;
  }
  for (const auto& [id, entry] : log_.entries()) {
    if (entry.state == ItemLog::State::kCancelled || entry.work.round > 0) continue;
    const auto item = static_cast<size_t>(entry.work.item);
    if (ended[item]) {
      options().violate(absl::StrCat("item ", item, " is in two closures, one of them ", id));
    }
    ended[item] = true;
  }
  std::vector<int> left;
  for (size_t i = 0; i < ended.size(); ++i) {
    if (!ended[i]) left.push_back(static_cast<int>(i));
  }
  return left;
}

bool CoordinatorLife::MayEndWith(const absl::Status& error) const {
  return checks_.disk_was_hit() && absl::StrContains(error.message(), options().directory) &&
         !absl::StrContains(error.message(), "could not be put back to its last checkpoint");
}

absl::Status CoordinatorLife::Expected(const absl::Status& error) {
  if (IsOver() || ClassOf(error) == proto::STALE) return error;
  if (ClassOf(error) == proto::APPLICATION && absl::StrContains(error.message(), "picky")) {
    return absl::OkStatus();
  }
  if (MayEndWith(error)) return absl::OkStatus();
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

absl::Status CoordinatorLife::FetchOne() {
  const auto& entries = log_.entries();
  auto entry = entries.begin();
  std::advance(entry, static_cast<int64_t>(rng().Below(entries.size())));
  if (!entry->second.result.has_value()) return absl::OkStatus();
  const auto fetched = coordinator().Fetch(entry->second.result);
  return absl::IsCancelled(fetched.status()) ? absl::OkStatus() : fetched.status();
}

absl::Status CoordinatorLife::JoinAll() { return CheckJoined(coordinator().Join()); }

// After a Join every result is there, and fetching it twice gives it twice.
void CoordinatorLife::CheckResults() {
  for (const auto& [id, entry] : log_.entries()) {
    if (!entry.result.has_value()) continue;
    if (!entry.result.state().IsReady()) {
      options().violate(absl::StrCat("Join returned and closure ", id, " has no result"));
      continue;
    }
    const bool fails = plan_.KindOf(entry.work) == SeedPlan::Item::kFail;
    const absl::Status& status = entry.result.state().result().status();
    if (!log_.IsAsFirstSeen(entry)) {
      options().violate(absl::StrCat("closure ", id, " has another result than at first"));
    }
    // The job was taken over, or given up: the next call says so.
    if (ClassOf(status) == proto::STALE) continue;
    if (MayEndWith(status)) continue;
    if (status.ok() ? fails : !absl::IsCancelled(status) && !fails) {
      options().violate(absl::StrCat("closure ", id, " of item ", entry.work.item, " ended with ",
                                     status.ToString()));
    }
  }
}

// Reads twice: the first makes sure that a loss which nobody has noticed yet is over.
absl::Status CoordinatorLife::Finish() {
  options().on_all_done();
  std::vector<Tensor> values;
  for (int i = 0; i < 2; ++i) {
    values.clear();
    for (const Variable& variable : programs_.variables) {
      ASSIGN_OR_RETURN(Tensor value, coordinator().Read(variable));
      values.push_back(std::move(value));
    }
  }
  if (checks_.check(*this, values)) return absl::OkStatus();
  // Taken over in the last moment; it is told so.
  while (true) {
    RETURN_IF_ERROR(coordinator().Join());
    WaitFor([] { return false; }, plan_.lease);
    if (IsOver()) return absl::CancelledError("stopped while it was taken over");
  }
}

}  // namespace cohort
