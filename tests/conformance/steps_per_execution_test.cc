// compile.steps_per_execution: closures of several steps leave the same model, to the bit, and the
// same losses as closures of one, with as many calls fewer. The expectation is always a run of one
// step a closure that nothing has disturbed.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>
#include <set>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "coordinator/strategy/strategy.h"
#include "tests/conformance/strategy_runs.h"
#include "tests/sim/sim_cluster.h"
#include "tests/support/stepwise_training.h"

namespace cohort {
namespace {

// 200 examples in batches of 32 are 7 steps an epoch, and 70 to test are 3.
constexpr uint64_t kEpochs = 2;
constexpr uint64_t kStepsOfEpoch = 7;
constexpr uint64_t kTestSteps = 3;

// Counts the calls that the coordinator makes for closures, and kills a process inside one.
class RunCalls final : public SimWatcher {
 public:
  // A while after a call for the closure that begins with this id, or with a later one of its
  // steps; the process comes back.
  struct Kill {
    TaskId task;
    uint64_t id = 0;
    absl::Duration delay;
  };
  RunCalls(SimCluster& cluster, std::optional<Kill> kill)
      : cluster_(cluster), kill_(std::move(kill)) {}

  SimFate OnRequest(const SimMessage& message) override {
    if (!absl::EndsWith(message.method, "/RunClosure")) return {};
    proto::RunClosureRequest request;
    if (request.ParseFromString(message.request)) ids_.insert(request.closure_id());
    ++calls_;
    if (kill_.has_value() && request.closure_id() == kill_->id) Strike();
    return {};
  }
  void OnArrival(const SimMessage&) override {}
  SimFate OnResponse(const SimMessage&) override { return {}; }

  uint64_t calls() const { return calls_; }
  // Ids that calls began with, though no closure of so many steps does: one that went on inside.
  uint64_t WentOn(uint64_t steps) const {
    uint64_t count = 0;
    for (const uint64_t id : ids_) {
      const bool trains = id <= kEpochs * kStepsOfEpoch;
      count += trains && (id - 1) % kStepsOfEpoch % steps != 0 ? 1 : 0;
    }
    return count;
  }

 private:
  void Strike() {
    const absl::Time when = cluster_.sim().Now() + kill_->delay;
    const TaskId task = std::exchange(kill_, std::nullopt)->task;
    cluster_.sim().CallAt(when, [this, task] { cluster_.tasks().Kill(task); });
    cluster_.sim().CallAt(when + absl::Milliseconds(30),
                          [this, task] { cluster_.tasks().Start(task); });
  }

  SimCluster& cluster_;
  std::optional<Kill> kill_;
  uint64_t calls_ = 0;
  std::set<uint64_t> ids_;
};

struct Case {
  std::string strategy;
  uint64_t seed = 1;
  int workers = 1;
  int num_ps = 0;
  uint64_t steps = 1;  // of a closure
  std::vector<std::string> overrides = {};
};

struct Ended {
  absl::StatusOr<TrainSummary> summary;
  std::string model;  // the bytes of the file
  uint64_t calls = 0;
  uint64_t went_on = 0;
};

Ended Train(const Case& setup, std::optional<RunCalls::Kill> kill = std::nullopt) {
  SimCluster cluster(setup.seed, setup.num_ps, setup.workers);
  RunCalls calls(cluster, std::move(kill));
  cluster.network().SetWatcher(&calls);
  std::vector<std::string> overrides = setup.overrides;
  overrides.push_back(absl::StrCat("strategy.type=", setup.strategy));
  overrides.push_back(absl::StrCat("fit.epochs=", kEpochs));
  overrides.push_back(absl::StrCat("compile.steps_per_execution=", setup.steps));
  Ended run{RunWholeJob(cluster, overrides), "", 0, 0};
  cluster.network().SetWatcher(nullptr);
  EXPECT_TRUE(run.summary.ok()) << run.summary.status();
  const auto model = ReadFile(cluster.WorldOf("reader").files, "/model.onnx");
  EXPECT_TRUE(model.ok()) << model.status();
  run.model = model.value_or("");
  run.calls = calls.calls();
  run.went_on = calls.WentOn(setup.steps);
  cluster.End();
  return run;
}

uint64_t ClosuresOf(uint64_t steps) {
  const auto closures = [&](uint64_t all) { return (all + steps - 1) / steps; };
  return kEpochs * closures(kStepsOfEpoch) + closures(kTestSteps);
}

class StepsOfEachStrategy : public testing::TestWithParam<Case> {};

TEST_P(StepsOfEachStrategy, LeavesTheSameBitsWithFewerCalls) {
  Case setup = GetParam();
  const Ended wanted = Train(setup);
  ASSERT_TRUE(wanted.summary.ok());
  const auto members = static_cast<uint64_t>(setup.workers);
  // With a remainder, in one closure, and more than an epoch has.
  for (const uint64_t steps : {1, 3, 4, 7, 100}) {
    setup.steps = steps;
    const Ended run = Train(setup);
    ASSERT_TRUE(run.summary.ok());
    EXPECT_EQ(run.model, wanted.model) << steps;
    EXPECT_EQ(run.summary->train_loss, wanted.summary->train_loss) << steps;
    EXPECT_EQ(run.summary->train_metrics, wanted.summary->train_metrics) << steps;
    EXPECT_EQ(run.summary->test_loss, wanted.summary->test_loss) << steps;
    EXPECT_EQ(run.summary->examples, wanted.summary->examples) << steps;
    EXPECT_EQ(run.summary->steps, static_cast<int64_t>(kEpochs * kStepsOfEpoch)) << steps;
    EXPECT_EQ(run.summary->closures.done, ClosuresOf(steps));
    // Of an evaluation each closure goes to one worker.
    const uint64_t single = (kTestSteps + steps - 1) / steps;
    EXPECT_EQ(run.calls, (ClosuresOf(steps) - single) * members + single) << steps;
  }
}

INSTANTIATE_TEST_SUITE_P(
    Types, StepsOfEachStrategy,
    testing::Values(
        Case{"one_device"}, Case{"default"},
        Case{.strategy = "mirrored", .overrides = {R"(strategy.devices=["cpu:0","cpu:1"])"}},
        Case{.strategy = "central_storage",
             .overrides = {R"(strategy.compute_devices=["cpu:0","cpu:1"])"}},
        Case{.strategy = "multi_worker_mirrored", .workers = 2},
        Case{
            .strategy = "multi_worker_mirrored", .workers = 3, .overrides = {WithStatistics(true)}},
        // One closure at a time: what a step reads does not depend on others.
        Case{.strategy = "parameter_server",
             .num_ps = 2,
             .overrides = {"fit.closures_in_flight=1"}}),
    [](const testing::TestParamInfo<Case>& setup) {
      return absl::StrCat(setup.param.strategy, setup.param.workers);
    });

// A learning rate that falls with each step.
TEST(StepsPerExecution, EachStepHasItsLearningRate) {
  Case setup{.strategy = "one_device",
             .overrides = {R"(compile.optimizer={"class_name":"SGD","config":{"learning_rate":)"
                           R"({"class_name":"ExponentialDecay","config":{)"
                           R"("initial_learning_rate":0.1,"decay_steps":1,"decay_rate":0.5}}}})"}};
  const Ended wanted = Train(setup);
  setup.steps = 5;
  EXPECT_EQ(Train(setup).model, wanted.model);
}

class StepsAndKills : public testing::TestWithParam<uint64_t> {
 protected:
  // Inside the first closure of an epoch, or shortly behind it.
  static RunCalls::Kill KillOf(Role role, uint64_t tasks) {
    const uint64_t seed = GetParam();
    return {{role, static_cast<int>(seed % tasks)},
            seed % 2 == 0 ? 1 : 1 + kStepsOfEpoch,
            absl::Milliseconds(1 + 2 * seed)};
  }
};

// A push of a step that was applied before is known by its own id. With one server, which has all
// of a push or nothing: a step that some have would be computed from what they have.
TEST_P(StepsAndKills, AWorkerOfParameterServersLeavesTheSameBits) {
  Case setup{.strategy = "parameter_server",
             .seed = GetParam(),
             .num_ps = 1,
             .overrides = {"fit.closures_in_flight=1"}};
  const Ended wanted = Train(setup);
  setup.steps = 4;
  const Ended run = Train(setup, KillOf(Role::kWorker, 1));
  EXPECT_EQ(run.model, wanted.model);
}

// Everything goes back to a checkpoint, in which slices may have some steps of a closure.
TEST_P(StepsAndKills, AParameterServerLeavesTheSameBits) {
  Case setup{.strategy = "parameter_server",
             .seed = GetParam(),
             .num_ps = 2,
             .overrides = {"fit.closures_in_flight=1", "recovery.interval_ms=5"}};
  const Ended wanted = Train(setup);
  setup.steps = 4;
  const Ended run = Train(setup, KillOf(Role::kPs, 2));
  EXPECT_EQ(run.model, wanted.model);
}

TEST_P(StepsAndKills, OneDeviceIsPutBackToACheckpointAndLeavesTheSameBits) {
  Case setup{.strategy = "one_device", .seed = GetParam(), .overrides = {"recovery.interval_ms=5"}};
  const Ended wanted = Train(setup);
  setup.steps = 4;
  const Ended run = Train(setup, KillOf(Role::kWorker, 1));
  EXPECT_EQ(run.model, wanted.model);
  ASSERT_TRUE(run.summary.ok());
  EXPECT_EQ(run.summary->train_loss, wanted.summary->train_loss);
}

// Sums of as many workers as were there are rounded in another order.
TEST_P(StepsAndKills, AMemberOfAGroupCostsNoStep) {
  Case setup{.strategy = "multi_worker_mirrored", .seed = GetParam(), .workers = 3};
  const Ended wanted = Train(setup);
  setup.steps = 4;
  const Ended run = Train(setup, KillOf(Role::kWorker, 3));
  ASSERT_TRUE(run.summary.ok());
  EXPECT_NEAR(*run.summary->train_loss, *wanted.summary->train_loss, 1e-3);
  EXPECT_NEAR(*run.summary->test_loss, *wanted.summary->test_loss, 1e-3);
  EXPECT_EQ(run.summary->examples, wanted.summary->examples) << "each once";
  EXPECT_EQ(run.summary->closures.recoveries, wanted.summary->closures.recoveries)
      << "nothing is taken back";
}

INSTANTIATE_TEST_SUITE_P(Seeds, StepsAndKills, testing::Range<uint64_t>(1, 9));

// The kills are of use only while some of them strike inside a closure.
TEST(StepsPerExecution, GroupsFormAgainInsideAClosure) {
  uint64_t went_on = 0;
  for (uint64_t seed = 1; seed <= 8; ++seed) {
    const Case setup{.strategy = "multi_worker_mirrored", .seed = seed, .workers = 3, .steps = 7};
    went_on += Train(setup, RunCalls::Kill{{Role::kWorker, static_cast<int>(seed % 3)},
                                           1,
                                           absl::Milliseconds(4 + 2 * seed)})
                   .went_on;
  }
  EXPECT_GT(went_on, 2u);
}

}  // namespace
}  // namespace cohort
