#include "tests/sim/counter_job.h"

#include <memory>
#include <utility>

#include "common/base/status.h"
#include "tests/support/counter_life.h"

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

struct Life {
  std::unique_ptr<ClusterCoordinator> coordinator;
  std::unique_ptr<CounterLife> counter;
};

absl::StatusOr<Life> StartLife(SimCluster& cluster, const CounterJob& job) {
  ClusterCoordinator::Options options;
  options.attempts_max = options.quarantine_after = 1000;
  if (job.recovery) options.recovery_directory = "/recovery";
  options.recovery_interval = job.recovery_interval;
  options.redo_max = job.redo_max;
  options.checkpoint_chunk_bytes = job.chunk_bytes;
  options.closure_timeout = job.closure_timeout;
  options.closures_in_flight = job.closures_in_flight;
  Life life;
  ASSIGN_OR_RETURN(life.coordinator, cluster.Connect(std::move(options)));
  life.counter =
      std::make_unique<CounterLife>(*life.coordinator, static_cast<uint64_t>(job.increments));
  RETURN_IF_ERROR(life.counter->Begin());
  return life;
}

}  // namespace

absl::StatusOr<float> RunCounterJob(SimCluster& cluster, const CounterJob& job) {
  ASSIGN_OR_RETURN(Life life, StartLife(cluster, job));
  cluster.network().SetFaults(job.faults);
  KillSome(cluster, Role::kWorker, job.kills, job.within);
  KillSome(cluster, Role::kPs, job.ps_kills, job.within);
  RETURN_IF_ERROR(life.counter->ScheduleWhatIsLeft());
  for (int i = 0; i < job.coordinator_kills; ++i) {
    const absl::Time when = DrawTime(cluster, job.within);
    const absl::Status joined = life.coordinator->Join(when - cluster.sim().Now());
    if (joined.ok()) break;
    if (!absl::IsDeadlineExceeded(joined)) return joined;
    cluster.network().Kill("chief:0");
    life = Life();
    ASSIGN_OR_RETURN(life, StartLife(cluster, job));
    RETURN_IF_ERROR(life.counter->ScheduleWhatIsLeft());
  }
  RETURN_IF_ERROR(life.coordinator->Join());
  cluster.network().SetFaults(FaultPlan());
  return life.counter->Finish();
}

}  // namespace cohort
