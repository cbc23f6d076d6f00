#include "tests/sim/counter_job.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "common/base/status.h"
#include "tests/support/test_programs.h"

namespace cohort {

namespace {

absl::Time DrawTime(SimCluster& cluster, absl::Duration within) {
  const auto millis = static_cast<uint64_t>(absl::ToInt64Milliseconds(within));
  return cluster.sim().Now() + absl::Milliseconds(1 + cluster.sim().rng().Below(millis));
}

void KillSome(SimCluster& cluster, Role role, int kills, absl::Duration within) {
  const auto tasks = static_cast<uint64_t>(cluster.tasks().spec().Indices(role).size());
  for (int i = 0; i < kills; ++i) {
    const absl::Time when = DrawTime(cluster, within);
    const TaskId victim{role, static_cast<int>(cluster.sim().rng().Below(tasks))};
    cluster.sim().CallAt(when, [&cluster, victim] {
      cluster.tasks().Kill(victim);
      cluster.tasks().Start(victim);
    });
  }
}

// One life of the coordinator. Closure i increments for the i-th time, in whichever life it runs.
class CounterLife {
 public:
  CounterLife(SimCluster& cluster, const CounterJob& job) : cluster_(cluster), job_(job) {}

  absl::Status Connect() {
    ClusterCoordinator::Options options;
    options.attempts_max = options.quarantine_after = 1000;
    if (job_.recovery) options.recovery_directory = "/recovery";
    options.recovery_interval = job_.recovery_interval;
    options.redo_max = job_.redo_max;
    ASSIGN_OR_RETURN(coordinator_, cluster_.Connect(std::move(options)));
    VariableSpec spec;
    spec.name = "counter";
    spec.initializer.set_op("zeros");
    ASSIGN_OR_RETURN(counter_, coordinator_->Scope(AssignAdd()).CreateVariable(spec));
    ASSIGN_OR_RETURN(increment_, coordinator_->Register(IncrementProgram("counter")));
    ASSIGN_OR_RETURN(left_, coordinator_->ResumeState());
    return absl::OkStatus();
  }

  absl::Status ScheduleWhatIsLeft() {
    const uint64_t last = static_cast<uint64_t>(job_.increments);
    for (uint64_t id = coordinator_->NextId().value; id <= last; ++id) {
      if (left_.has_value() && id < left_->next_id()) {
        const auto& open = left_->open();
        if (std::find(open.begin(), open.end(), id) == open.end()) continue;
        if (id > coordinator_->NextId().value) coordinator_->SkipTo(ClosureId{id});
      } else if (left_.has_value() && coordinator_->NextId().value < left_->next_id()) {
        coordinator_->SkipTo(ClosureId{left_->next_id()});
      }
      ASSIGN_OR_RETURN(RemoteValue result, coordinator_->Schedule(increment_, {}));
      results_.push_back(std::move(result));
    }
    return absl::OkStatus();
  }

  absl::Status Join(absl::Duration timeout) { return coordinator_->Join(timeout); }

  absl::StatusOr<float> Finish() {
    for (const RemoteValue& result : results_) {
      ASSIGN_OR_RETURN(const FetchedTensors fetched, coordinator_->Fetch(result));
      if (fetched.size() != 1) return absl::InternalError("a closure fetched nothing");
    }
    cluster_.network().SetFaults(FaultPlan());
    ASSIGN_OR_RETURN(const Tensor value, coordinator_->Read(*counter_));
    return *value.data<float>();
  }

 private:
  SimCluster& cluster_;
  const CounterJob& job_;
  std::unique_ptr<ClusterCoordinator> coordinator_;
  std::optional<Variable> counter_;
  ProgramHandle increment_;
  std::optional<proto::CoordinatorState> left_;
  std::vector<RemoteValue> results_;
};

}  // namespace

absl::StatusOr<float> RunCounterJob(SimCluster& cluster, const CounterJob& job) {
  auto life = std::make_unique<CounterLife>(cluster, job);
  RETURN_IF_ERROR(life->Connect());
  cluster.network().SetFaults(job.faults);
  KillSome(cluster, Role::kWorker, job.kills, job.within);
  KillSome(cluster, Role::kPs, job.ps_kills, job.within);
  RETURN_IF_ERROR(life->ScheduleWhatIsLeft());
  for (int i = 0; i < job.coordinator_kills; ++i) {
    const absl::Time when = DrawTime(cluster, job.within);
    const absl::Status joined = life->Join(when - cluster.sim().Now());
    if (joined.ok()) break;
    if (!absl::IsDeadlineExceeded(joined)) return joined;
    cluster.network().Kill("chief:0");
    life = std::make_unique<CounterLife>(cluster, job);
    RETURN_IF_ERROR(life->Connect());
    RETURN_IF_ERROR(life->ScheduleWhatIsLeft());
  }
  RETURN_IF_ERROR(life->Join(absl::InfiniteDuration()));
  return life->Finish();
}

}  // namespace cohort
