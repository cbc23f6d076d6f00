#include "tests/sim/counter_job.h"

#include <vector>

#include "common/base/status.h"
#include "tests/support/test_programs.h"

namespace cohort {

absl::StatusOr<float> RunCounterJob(SimCluster& cluster, const CounterJob& job) {
  ClusterCoordinator::Options options;
  options.attempts_max = options.quarantine_after = 1000;
  ASSIGN_OR_RETURN(const std::unique_ptr<ClusterCoordinator> coordinator,
                   cluster.Connect(std::move(options)));
  VariableSpec spec;
  spec.name = "counter";
  spec.initializer.set_op("zeros");
  ASSIGN_OR_RETURN(const Variable counter,
                   coordinator->Scope(AssignAdd()).CreateVariable(spec));
  ASSIGN_OR_RETURN(const ProgramHandle increment,
                   coordinator->Register(IncrementProgram("counter")));
  cluster.network().SetFaults(job.faults);
  const int workers = static_cast<int>(cluster.tasks().spec().Indices(Role::kWorker).size());
  for (int i = 0; i < job.kills; ++i) {
    const absl::Duration when = absl::Milliseconds(1 + cluster.sim().rng().Below(400));
    const TaskId victim{
        Role::kWorker, static_cast<int>(cluster.sim().rng().Below(static_cast<uint64_t>(workers)))};
    cluster.sim().CallAt(cluster.sim().Now() + when, [&cluster, victim] {
      cluster.tasks().Kill(victim);
      cluster.tasks().Start(victim);
    });
  }
  std::vector<RemoteValue> results;
  for (int i = 0; i < job.increments; ++i) {
    ASSIGN_OR_RETURN(RemoteValue result, coordinator->Schedule(increment, {}));
    results.push_back(std::move(result));
  }
  RETURN_IF_ERROR(coordinator->Join());
  for (const RemoteValue& result : results) {
    ASSIGN_OR_RETURN(const FetchedTensors fetched, coordinator->Fetch(result));
    if (fetched.size() != 1) return absl::InternalError("a closure fetched nothing");
  }
  cluster.network().SetFaults(FaultPlan());
  ASSIGN_OR_RETURN(const Tensor value, coordinator->Read(counter));
  return *value.data<float>();
}

}  // namespace cohort
