// How far apart pull and push of a step may be, measured by the parameter servers: under bounded
// staleness it is never more than the job allows, whatever happens to the workers.

#include <gmock/gmock.h>

#include <numeric>

#include "common/program/graph_builder.h"
#include "coordinator/api/coordinator_parts.h"
#include "coordinator/members/ctl_service.h"
#include "tests/sim/members_sim.h"

namespace cohort {
namespace {

// Reads the variable and adds 1 to it.
proto::Program ReadAndAdd(const std::string& variable) {
  GraphBuilder graph("read_and_add");
  proto::Program program;
  program.set_name("read_and_add");
  const std::string value = graph.Input("value", DType::kFloat32, {});
  proto::InputBinding& input = *program.add_inputs();
  input.set_input(value);
  input.set_variable(variable);
  const std::string one = graph.Op("Identity", {graph.Constant("one", Tensor::Scalar(1.0f))});
  graph.Output(one);
  proto::OutputBinding& push = *program.add_outputs();
  push.set_output(one);
  push.set_push(variable);
  const std::string read = graph.Op("Identity", {value});
  graph.Output(read);
  proto::OutputBinding& fetch = *program.add_outputs();
  fetch.set_output(read);
  fetch.set_fetch(true);
  program.set_model(graph.Finish()->SerializeAsString());
  return program;
}

class StalenessSim : public MembersSim {
 protected:
  // Workers and a ps are lost, and workers come and go, while steps run.
  proto::PsStatsResponse StatsOfARun(uint64_t seed, std::optional<uint64_t> steps_ahead_max) {
    ClusterCoordinator::Options options;
    options.steps_ahead_max = steps_ahead_max;
    options.closures_in_flight = 3;
    options.recovery_directory = "/recovery";
    options.recovery_interval = absl::Milliseconds(100);
    Begin(seed, std::move(options));
    increment = *coordinator->Register(ReadAndAdd(counter->name()));
    FaultPlan faults;
    faults.delay = 0.2;
    faults.delay_max = absl::Milliseconds(100);
    faults.lose_response = 0.01;
    faults.duplicate_request = 0.05;
    cluster->network().SetFaults(faults);
    Count(60);
    changes->Add(cluster->tasks().AddWorker(10), [](const auto&) {});
    cluster->sim().RunFor(absl::Milliseconds(cluster->sim().rng().Below(100)));
    cluster->tasks().Kill(Worker(0));
    cluster->tasks().Start(Worker(0));
    Count(60);
    changes->Remove(Worker(1), [](const absl::Status&) {});
    cluster->tasks().Kill({Role::kPs, 1});
    cluster->tasks().Start({Role::kPs, 1});
    Count(60);
    ExpectCounted();
    return *coordinator->parts().ps->Stats();
  }
};

TEST_F(StalenessSim, IsNeverMoreThanTheBoundAllows) {
  for (uint64_t seed = 1; seed <= 24; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    const uint64_t bound = seed % 4;
    const proto::PsStatsResponse stats = StatsOfARun(seed, bound);
    // While a step has not ended only steps at most `bound` ahead of it run, and it waited for all
    // that are more than `bound` behind.
    EXPECT_LE(stats.staleness_max(), 2 * bound);
    if (HasFatalFailure() || HasNonfatalFailure()) return;
  }
}

TEST_F(StalenessSim, IsMeasuredForEveryUpdate) {
  uint64_t largest = 0;
  for (uint64_t seed = 1; seed <= 4; ++seed) {
    const proto::PsStatsResponse stats = StatsOfARun(seed, std::nullopt);
    const auto& histogram = stats.staleness_histogram();
    EXPECT_EQ(std::accumulate(histogram.begin(), histogram.end(), uint64_t{0}),
              stats.applied_slices());
    largest = std::max(largest, stats.staleness_max());
  }
  EXPECT_GT(largest, 6u) << "without a bound these runs would break those of the other test";
}

TEST_F(StalenessSim, TheStatusShowsIt) {
  Begin(3);
  increment = *coordinator->Register(ReadAndAdd(counter->name()));
  Count(40);
  ASSERT_TRUE(coordinator->Join().ok());
  const CtlParts parts{"job", coordinator->parts().cluster, coordinator->parts().scheduler,
                       changes};
  proto::GetJobStatusResponse status;
  AnswerJobStatus(parts, [&](absl::StatusOr<Envelope<proto::GetJobStatusResponse>> answer) {
    status = answer->header;
  });
  ASSERT_TRUE(cluster->sim().RunUntil([&] { return !status.job().empty(); }, absl::Minutes(1)));
  const auto& histogram = status.staleness_histogram();
  EXPECT_EQ(std::accumulate(histogram.begin(), histogram.end(), uint64_t{0}), 40u);
  EXPECT_EQ(status.staleness_max(), coordinator->parts().ps->Stats()->staleness_max());
}

}  // namespace
}  // namespace cohort
