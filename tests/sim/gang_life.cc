#include "tests/sim/gang_life.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/status.h"
#include "common/wire/error_detail.h"
#include "coordinator/api/coordinator_parts.h"

namespace cohort {

namespace {
// Of a cluster where nothing strikes any more.
constexpr absl::Duration kInStepMax = absl::Minutes(1);
}  // namespace

GangLife::GangLife(World world, SimActors& actors, const GangPlan& plan, Options options)
    : JobLife(world, actors, plan, std::move(options)), plan_(plan) {}

absl::Status GangLife::Start() {
  ClusterCoordinator::Options options = CoordinatorOptions();
  options.homes = Role::kWorker;
  options.mirrored = true;
  options.job = "gangs";
  options.workers.min = plan_.gang_min;
  options.closure_timeout = plan_.closure_timeout();
  RETURN_IF_ERROR(Connect(std::move(options)));
  ASSIGN_OR_RETURN(programs_, MakeGangPrograms(coordinator(), plan_));
  ASSIGN_OR_RETURN(const auto left, coordinator().ResumeState());
  if (!left.has_value()) return absl::OkStatus();
  for (const uint64_t id : left->open()) {
    SkipTo(id);
    RETURN_IF_ERROR(ScheduleItem(id));
  }
  SkipTo(left->next_id());
  return absl::OkStatus();
}

absl::Status GangLife::ScheduleItem(uint64_t closure) {
  absl::StatusOr<RemoteValue> result = coordinator().Schedule(
      programs_.of.at(plan_.Of(closure)), OptionsFor(plan_, programs_, closure));
  options().note(absl::StrCat(options().host, " schedules closure ", closure, " step ",
                              plan_.StepOf(closure), ": ", result.status().ToString()));
  RETURN_IF_ERROR(result.status());
  CheckNextId(closure, plan_.ItemsOf(closure));
  results_[closure] = *std::move(result);
  return absl::OkStatus();
}

absl::Status GangLife::DoItems() {
  while (coordinator().NextId().value <= plan_.items.size()) {
    RETURN_IF_ERROR(Annotate(ScheduleItem(coordinator().NextId().value), "Schedule"));
    KeepPace(plan_.pace);
    RETURN_IF_ERROR(Annotate(Disturb(), "Done, Join or Fetch"));
  }
  return JoinAll();
}

absl::Status GangLife::FetchOne() {
  return coordinator().Fetch(results_.rbegin()->second).status();
}

absl::Status GangLife::JoinAll() {
  RETURN_IF_ERROR(CheckJoined(Annotate(coordinator().Join(), "Join")));
  CheckResults();
  return absl::OkStatus();
}

bool GangLife::HasBatchesOf(uint64_t closure, const FetchedTensors& fetched) const {
  if (fetched.size() != plan_.ItemsOf(closure) * plan_.step_fetches()) return false;
  for (uint64_t i = 0; i < plan_.ItemsOf(closure); ++i) {
    const size_t place = i * plan_.step_fetches() + static_cast<size_t>(StepFetch::kSum);
    const float sum = plan_.BatchOf(plan_.StepTakenBy(closure + i)).sum;
    if (fetched[place].data<float>()[0] != sum) return false;
  }
  return true;
}

// After a Join every result is there.
void GangLife::CheckResults() {
  for (const auto& [closure, result] : results_) {
    if (!result.state().IsReady()) {
      options().violate(absl::StrCat("Join returned and closure ", closure, " has no result"));
      continue;
    }
    const absl::StatusOr<FetchedTensors>& fetched = result.state().result();
    if (ClassOf(fetched.status()) == proto::STALE) continue;  // the next call says so
    if (!fetched.ok()) {
      options().violate(
          absl::StrCat("closure ", closure, " ended with ", fetched.status().ToString()));
    } else if (plan_.IsGang(closure) && !HasBatchesOf(closure, *fetched)) {
      options().violate(absl::StrCat("closure ", closure, " has the result of another batch"));
    }
  }
}

absl::Status GangLife::Finish() {
  options().on_all_done();
  const auto in_step = [this] { return coordinator().parts().cluster->num_ps() == plan_.workers; };
  // A loss that nobody has noticed yet is over behind the first round.
  constexpr int kRounds = 2;
  for (int round = 1; round <= kRounds; ++round) {
    WaitFor(in_step, kInStepMax);
    if (IsKilled()) return absl::CancelledError("killed");
    RETURN_IF_ERROR(coordinator().Join());
    for (int worker = 0; worker < plan_.workers && in_step(); ++worker) {
      RETURN_IF_ERROR(CheckCopy(worker));
      if (plan_.table.has_value()) RETURN_IF_ERROR(CheckTable(worker));
    }
    if (round < kRounds) WaitFor([] { return false; }, plan_.lease * 2);
  }
  if (!in_step() && !IsOver()) {
    options().violate(absl::StrCat("of ", plan_.workers, " workers ",
                                   coordinator().parts().cluster->num_ps(),
                                   " are in step in the end: ", DescribeWait()));
  }
  return absl::OkStatus();
}

proto::VariableLayout GangLife::CopyOf(proto::VariableLayout layout, int worker) {
  layout.set_mirrored(false);  // of this home
  for (proto::SliceHome& slice : *layout.mutable_slices()) {
    slice.set_ps(static_cast<uint32_t>(worker));
  }
  return layout;
}

absl::Status GangLife::CheckTable(int worker) {
  std::vector<int64_t> keys;
  for (int64_t example = 1; example <= plan_.examples; ++example) keys.push_back(example);
  const absl::StatusOr<Tensor> rows =
      coordinator().parts().ps->ReadRows(CopyOf(*programs_.table, worker), keys);
  // Lost since it was asked for.
  if (absl::IsInvalidArgument(rows.status()) || ClassOf(rows.status()) == proto::PS_LOST) {
    return absl::OkStatus();
  }
  RETURN_IF_ERROR(rows.status());
  for (const int64_t key : keys) {
    const float row = rows->span<float>()[static_cast<size_t>(key - 1)];
    const float wanted =
        plan_.table->IsKnown()
            ? plan_.table->ValueBehind(plan_.StepsWith(key, plan_.num_steps()))
            : rows_.emplace(key, row).first->second;  // as in the copy that was read first
    if (row == wanted) continue;
    options().violate(absl::StrCat("in the end the row of key ", key, " at worker:", worker, " is ",
                                   row, " instead of ", wanted));
    break;
  }
  return absl::OkStatus();
}

absl::Status GangLife::CheckCopy(int worker) {
  const absl::StatusOr<Tensor> value =
      coordinator().parts().ps->Read(CopyOf(programs_.variable, worker));
  // Lost since it was asked for.
  if (absl::IsInvalidArgument(value.status()) || ClassOf(value.status()) == proto::PS_LOST) {
    return absl::OkStatus();
  }
  RETURN_IF_ERROR(value.status());
  const float wanted = plan_.ValueBehind(plan_.num_steps());
  for (const float element : value->span<float>()) {
    if (element == wanted) continue;
    options().violate(
        absl::StrCat("in the end worker:", worker, " has ", element, " instead of ", wanted));
    break;
  }
  return absl::OkStatus();
}

}  // namespace cohort
