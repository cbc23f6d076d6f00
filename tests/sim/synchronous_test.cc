// Synchronous training in simulated time. Each step of a round pushes a number that says which of
// the round's steps it is, so that the variable tells afterwards which steps are in the mean of
// each round, and pushes ones to count the updates. Two more variables train each other: what a
// step pushes to either depends on both, whose slices lie on different servers. Whatever dies,
// every slice has one update per round, of just so many steps, and a step reads what the rounds
// before it left; without backups, whose pushes are interchangeable, the bits are those of rounds
// that were computed one after another.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <map>
#include <memory>
#include <vector>

#include "common/program/graph_builder.h"
#include "coordinator/api/coordinator_parts.h"
#include "coordinator/strategy/partitioner.h"
#include "tests/sim/sim_cluster.h"
#include "tests/support/test_programs.h"

namespace cohort {
namespace {

constexpr int kRounds = 12;
constexpr int kSlices = 3;  // of each variable
const std::vector<std::string> kVariables = {"updates", "choices", "left", "right"};
constexpr float kLeftRate = 0.3f;
constexpr float kRightRate = 0.7f;

// Reads and counts the updates, pushes its argument to the choices, and to left and right by how
// far they are apart.
proto::Program StepProgram() {
  GraphBuilder graph("step");
  proto::Program program;
  program.set_name("step");
  const auto constant = [&](const std::string& name, float value) {
    const std::vector<float> values(kRounds, value);
    return graph.Constant(name, Tensor::FromVector<float>(values, Shape{kRounds}));
  };
  const auto input = [&](const std::string& name) {
    const std::string value = graph.Input(name, DType::kFloat32, {kRounds});
    proto::InputBinding& binding = *program.add_inputs();
    binding.set_input(value);
    if (name == "chosen") {
      binding.set_argument(0);
    } else {
      binding.set_variable(name);
    }
    return value;
  };
  const std::string updates = input("updates");
  const std::string left = input("left");
  const std::string right = input("right");
  const std::string chosen = input("chosen");
  const std::string apart = graph.Op("Sub", {right, left});
  const auto pulled = [&](const std::string& rate, const std::string& by) {
    return graph.Op("Add", {graph.Op("Mul", {by, rate}), chosen});
  };
  const std::vector<std::string> pushed = {
      constant("one", 1), chosen, pulled(constant("left_rate", kLeftRate), apart),
      pulled(constant("right_rate", kRightRate), graph.Op("Neg", {apart}))};
  const auto output = [&](const std::string& value) {
    const std::string copy = graph.Op("Identity", {value});
    graph.Output(copy);
    proto::OutputBinding* const binding = program.add_outputs();
    binding->set_output(copy);
    return binding;
  };
  for (size_t i = 0; i < pushed.size(); ++i) output(pushed[i])->set_push(kVariables[i]);
  output(updates)->set_fetch(true);
  program.set_model(graph.Finish()->SerializeAsString());
  return program;
}

class Synchronous : public testing::Test {
 protected:
  struct Size {
    uint64_t aggregate = 1;
    uint64_t backups = 0;
    uint64_t steps() const { return aggregate + backups; }
  };

  void Begin(uint64_t seed, const Size& size) {
    size_ = size;
    values_.clear();
    coordinator_.reset();
    cluster_ = std::make_unique<SimCluster>(seed, 2, 3);
    ASSERT_NO_FATAL_FAILURE(StartCoordinator());
  }
  void TearDown() override { coordinator_.reset(); }

  // What an earlier one has left open is scheduled again, and then the rest.
  void StartCoordinator() {
    ClusterCoordinator::Options options;
    options.partitioner = *MakePartitioner(FixedShardsPartitionerSpec{kSlices});
    options.attempts_max = options.quarantine_after = 1000;
    options.recovery_directory = "/recovery";
    options.recovery_interval = absl::Milliseconds(60);
    auto connected = cluster_->Connect(std::move(options));
    ASSERT_TRUE(connected.ok()) << connected.status();
    coordinator_ = *std::move(connected);
    for (const std::string& name : kVariables) {
      VariableSpec spec;
      spec.name = name;
      spec.shape = Shape{kRounds};
      spec.initializer.set_op("zeros");
      spec.aggregation = proto::AGGREGATION_MEAN;
      const auto made = coordinator_->Scope(AssignAdd()).CreateVariable(spec);
      ASSERT_TRUE(made.ok()) << made.status();
      variables_.insert_or_assign(name, *made);
    }
    program_ = *coordinator_->Register(StepProgram());
    const auto left = coordinator_->ResumeState();
    ASSERT_TRUE(left.ok()) << left.status();
    if (left->has_value()) {
      for (const uint64_t id : (*left)->open()) {
        if (coordinator_->NextId().value < id) coordinator_->SkipTo(ClosureId{id});
        ScheduleStep(id);
      }
      if (coordinator_->NextId().value < (*left)->next_id()) {
        coordinator_->SkipTo(ClosureId{(*left)->next_id()});
      }
    }
    while (coordinator_->NextId().value <= kRounds * size_.steps()) {
      ScheduleStep(coordinator_->NextId().value);
    }
  }

  uint64_t RoundOf(uint64_t id) const { return (id - 1) / size_.steps() + 1; }

  std::vector<float> ChosenBy(uint64_t round, uint64_t member) const {
    std::vector<float> chosen(kRounds, 0);
    chosen[round - 1] = static_cast<float>(size_.aggregate << member);
    return chosen;
  }

  void ScheduleStep(uint64_t id) {
    const std::vector<float> chosen = ChosenBy(RoundOf(id), (id - 1) % size_.steps());
    ScheduleOptions options;
    options.arguments = {Tensor::FromVector<float>(chosen, Shape{kRounds})};
    options.round = {RoundOf(id), static_cast<uint32_t>(size_.aggregate)};
    auto value = coordinator_->Schedule(program_, std::move(options));
    ASSERT_TRUE(value.ok()) << value.status();
    values_[id] = *std::move(value);
  }

  void KillAndStart(TaskId task, uint64_t milliseconds_max) {
    const absl::Time when =
        cluster_->sim().Now() + absl::Milliseconds(cluster_->sim().rng().Below(milliseconds_max));
    cluster_->sim().CallAt(when, [this, task] {
      cluster_->tasks().Kill(task);
      cluster_->tasks().Start(task);
    });
  }

  std::vector<float> Read(const std::string& name) {
    const auto value = coordinator_->Read(variables_.at(name));
    EXPECT_TRUE(value.ok()) << value.status();
    if (!value.ok()) return {};
    return {value->span<float>().begin(), value->span<float>().end()};
  }

  void ExpectOneUpdateARound(bool something_is_lost) {
    const absl::Status joined = coordinator_->Join();
    ASSERT_TRUE(joined.ok()) << joined;
    cluster_->network().SetFaults(FaultPlan());
    EXPECT_THAT(Read("updates"), testing::Each(static_cast<float>(kRounds)));
    for (const float chosen : Read("choices")) {
      const auto members = static_cast<uint64_t>(chosen);
      EXPECT_EQ(static_cast<float>(members), chosen);
      EXPECT_EQ(std::popcount(members), static_cast<int>(size_.aggregate)) << members;
      EXPECT_LT(members, uint64_t{1} << size_.steps());
    }
    if (size_.backups == 0) ExpectTrainedAsOneAfterAnother();
    const bool all_are_awaited = size_.backups == 0 && !something_is_lost;
    for (const auto& [id, value] : values_) ExpectReadItsRound(id, value, all_are_awaited);
  }

  // Round by round, and in each the steps in their order.
  void ExpectTrainedAsOneAfterAnother() {
    std::vector<float> left(kRounds, 0);
    std::vector<float> right(kRounds, 0);
    const float share = 1.0f / static_cast<float>(size_.aggregate);
    for (uint64_t round = 1; round <= kRounds; ++round) {
      for (size_t i = 0; i < kRounds; ++i) {
        const float apart = right[i] - left[i];
        float left_mean = 0;
        float right_mean = 0;
        for (uint64_t member = 0; member < size_.aggregate; ++member) {
          const float chosen = ChosenBy(round, member)[i];
          left_mean += (apart * kLeftRate + chosen) * share;
          right_mean += (-apart * kRightRate + chosen) * share;
        }
        left[i] += left_mean;
        right[i] += right_mean;
      }
    }
    EXPECT_EQ(Read("left"), left);
    EXPECT_EQ(Read("right"), right);
  }

  void ExpectReadItsRound(uint64_t id, const RemoteValue& value, bool all_are_awaited) {
    ASSERT_TRUE(value.state().IsReady()) << id;
    const auto& fetched = value.state().result();
    ASSERT_TRUE(fetched.ok()) << fetched.status();
    const auto before = static_cast<float>(RoundOf(id) - 1);
    for (const float updates : fetched->at(0).span<float>()) {
      EXPECT_GE(updates, before) << "step " << id;
      // One that nobody waits for, because it is a backup or what it pushed the first time was
      // taken, may come when later rounds are applied.
      EXPECT_TRUE(!all_are_awaited || updates == before) << "step " << id << ": " << updates;
    }
  }

  Size size_;
  std::unique_ptr<SimCluster> cluster_;
  std::unique_ptr<ClusterCoordinator> coordinator_;
  std::map<std::string, Variable> variables_;
  ProgramHandle program_;
  std::map<uint64_t, RemoteValue> values_;  // of the present coordinator
};

TEST_F(Synchronous, DropsWhatComesWhenARoundIsFull) {
  for (const Size& size : {Size{2, 1}, Size{1, 3}, Size{4, 0}, Size{4, 2}}) {
    ASSERT_NO_FATAL_FAILURE(Begin(7, size));
    ExpectOneUpdateARound(/*something_is_lost=*/false);
    const proto::PsStatsResponse stats = *coordinator_->parts().ps->Stats();
    const uint64_t slices = kVariables.size() * kSlices;
    EXPECT_EQ(stats.applied_slices(), slices * kRounds);
    EXPECT_EQ(stats.dropped_slices(), slices * kRounds * size.backups);
    EXPECT_EQ(stats.staleness_max(), 0u) << "a round's mean is of the values that it changes";
    ASSERT_FALSE(HasFailure()) << size.aggregate << " of " << size.steps();
  }
}

TEST_F(Synchronous, MakesOneUpdateARoundWhateverDies) {
  for (uint64_t seed = 1; seed <= 48; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    // Every other one without backups.
    ASSERT_NO_FATAL_FAILURE(Begin(seed, {uint64_t{1} << seed % 3, seed / 3 % 2 * (seed % 4)}));
    FaultPlan faults;
    faults.delay = 0.2;
    faults.delay_max = absl::Milliseconds(50);
    faults.lose_request = faults.lose_response = 0.01;
    faults.duplicate_request = 0.1;
    cluster_->network().SetFaults(faults);
    for (int worker = 0; worker < 3; ++worker) KillAndStart({Role::kWorker, worker}, 400);
    if (seed % 2 == 0) KillAndStart({Role::kPs, static_cast<int>(seed / 2 % 2)}, 400);
    if (seed % 3 == 0) {
      const absl::Status joined =
          coordinator_->Join(absl::Milliseconds(cluster_->sim().rng().Below(400)));
      if (absl::IsDeadlineExceeded(joined)) {
        cluster_->network().Kill("chief:0");
        values_.clear();
        coordinator_.reset();
        ASSERT_NO_FATAL_FAILURE(StartCoordinator());
      }
    }
    ExpectOneUpdateARound(/*something_is_lost=*/true);
    ASSERT_FALSE(HasFailure());
  }
}

// A step that fails breaks its round off; what was pushed for it is in nothing.
TEST_F(Synchronous, AnErrorLeavesNothingOfItsRound) {
  ASSERT_NO_FATAL_FAILURE(Begin(5, {4, 0}));
  ASSERT_TRUE(coordinator_->Join().ok());
  const auto step = [&](uint64_t round, float value, int64_t length) {
    ScheduleOptions options;
    const std::vector<float> chosen(static_cast<size_t>(length), value);
    options.arguments = {Tensor::FromVector<float>(chosen, Shape{length})};
    options.round = {round, 2};
    return coordinator_->Schedule(program_, std::move(options)).status();
  };
  const std::vector<float> before = Read("choices");
  ASSERT_TRUE(step(kRounds + 1, 100, kRounds).ok());
  ASSERT_TRUE(step(kRounds + 1, 100, kRounds + 1).ok()) << "it fails when it runs";
  EXPECT_FALSE(coordinator_->Join().ok());
  EXPECT_EQ(Read("choices"), before);
  ASSERT_TRUE(step(kRounds + 2, 8, kRounds).ok());
  ASSERT_TRUE(step(kRounds + 2, 24, kRounds).ok());
  ASSERT_TRUE(coordinator_->Join().ok());
  EXPECT_EQ(Read("choices")[0], before[0] + 16);
}

TEST_F(Synchronous, RoundsThatCannotEndAreRefused) {
  ASSERT_NO_FATAL_FAILURE(Begin(5, {1, 0}));
  const auto refused = [&](ScheduleOptions options) {
    options.arguments = {Tensor::Zeros(DType::kFloat32, Shape{kRounds})};
    return absl::IsInvalidArgument(coordinator_->Schedule(program_, std::move(options)).status());
  };
  ScheduleOptions options;
  options.round = {100, 0};
  EXPECT_TRUE(refused(options));
  options.round = {100, 65536};
  EXPECT_TRUE(refused(options));
  options.round = {100, 1};
  options.replayable = false;
  EXPECT_TRUE(refused(options));
}

}  // namespace
}  // namespace cohort
