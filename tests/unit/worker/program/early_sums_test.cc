// Sums over workers that begin while their replicas still compute, by the order of events: a step
// of a perceptron whose kernels tell which node has run, on a communicator that tells what starts.

#include "worker/program/early_sums.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <deque>
#include <optional>
#include <utility>

#include "absl/strings/match.h"
#include "common/base/real_clock.h"
#include "common/program/program.h"
#include "tests/support/communicators/inprocess_communicator.h"
#include "tests/unit/worker/gang/held_communicator.h"
#include "tests/unit/worker/program/hooked_kernels.h"
#include "tests/unit/worker/test_programs.h"
#include "tests/unit/worker/worker_cluster.h"
#include "worker/program/replicated_run.h"

namespace cohort {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

// The perceptron's step, each gradient in a bucket of its own.
std::shared_ptr<const WorkerProgram> MakeStep(int replicas, bool overlap, const NodeHook& hook) {
  proto::RegisterProgramRequest request;
  *request.mutable_program() = PerceptronProgram();
  request.mutable_program()->mutable_outputs(0)->set_of_replicas(proto::SUM_OF_REPLICAS);
  auto& asked = *request.mutable_program()->mutable_replicas();
  for (int i = 0; i < replicas; ++i) asked.add_devices(absl::StrCat("cpu:", i));
  asked.mutable_communication()->set_bytes_per_pack(1);
  *request.add_variables() = MakeLayout("w1", DType::kFloat32, {4, 6}, {4}, 0, 1);
  *request.add_variables() = MakeLayout("b1", DType::kFloat32, {6}, {6}, 1, 1);
  *request.add_variables() = MakeLayout("w2", DType::kFloat32, {6, 3}, {6}, 2, 1);
  request.set_program_id(ProgramId(request.program()));
  auto made =
      MakeWorkerProgram(request, "", {HookedKernels(hook), Buffer::Allocate, nullptr, nullptr});
  EXPECT_TRUE(made.ok()) << made.status();
  auto program = std::const_pointer_cast<WorkerProgram>(*made);
  program->communication->overlap = overlap;
  return program;
}

Tensor Waves(Shape shape, double frequency) {
  Tensor tensor(DType::kFloat32, shape);
  for (int64_t i = 0; i < tensor.num_elements(); ++i) {
    tensor.mutable_data<float>()[i] =
        static_cast<float>(std::sin(static_cast<double>(i + 1) * frequency));
  }
  return tensor;
}

std::vector<Tensor> Inputs(int64_t rows) {
  Tensor y(DType::kInt64, Shape{rows});
  for (int64_t i = 0; i < rows; ++i) y.mutable_data<int64_t>()[i] = i * i % 3;
  return {Waves({rows, 4}, 0.7), y, Waves({4, 6}, 1.3), Waves({6}, 0.4), Waves({6, 3}, 2.1)};
}

using Result = std::optional<absl::StatusOr<ReplicatedRun::Outputs>>;

// One rank's step on a held communicator.
class HeldStep {
 public:
  HeldStep(int replicas, bool overlap)
      : program_(MakeStep(replicas, overlap, [this](const std::string& node) {
          events_.push_back(node);
          return hook_ ? hook_(node) : absl::OkStatus();
        })) {}

  // Every call gets an answer, as a communicator gives at its end: a step waits for it and lives.
  ~HeldStep() { Answer(absl::CancelledError("the test has ended")); }

  // Until there is nothing left to do without an answer of the communicator.
  void Run(NodeHook hook = nullptr) {
    hook_ = std::move(hook);
    auto run = std::make_shared<ReplicatedRun>(
        program_, strands_, group_, ReplicatedRun::Values{Inputs(8), {}}, RunContext{},
        [this](absl::StatusOr<ReplicatedRun::Outputs> outputs) { result_ = std::move(outputs); });
    strands_->Of(0).Post([run] { run->Start(); });
    turns_.RunAll();
  }
  void Answer(const absl::Status& status) {
    while (!calls_.held.empty()) {
      calls_.held.front().done(status);
      calls_.held.pop_front();
    }
    turns_.RunAll();
  }

  const Events& events() const { return events_; }
  Events Starts() const {
    Events starts;
    for (const std::string& event : events_) {
      if (absl::StartsWith(event, "start ")) starts.push_back(event);
    }
    return starts;
  }
  size_t IndexOf(const std::string& text) const {
    const auto at = std::find_if(events_.begin(), events_.end(), [&](const std::string& event) {
      return absl::StrContains(event, text);
    });
    EXPECT_NE(at, events_.end()) << text;
    return static_cast<size_t>(at - events_.begin());
  }
  size_t LastNode() const {
    size_t last = 0;
    for (size_t i = 0; i < events_.size(); ++i) {
      if (!absl::StartsWith(events_[i], "start ")) last = i;
    }
    return last;
  }
  std::deque<HeldCommunicator::Held>& held() { return calls_.held; }
  GangGroup& group() { return *group_; }
  const Result& result() const { return result_; }

 private:
  TasksInTurn turns_;  // first: what is held goes to an end there
  Events events_;
  HeldCommunicator::Calls calls_;
  NodeHook hook_;
  const std::shared_ptr<const WorkerProgram> program_;
  const std::shared_ptr<ReplicaStrands> strands_ =
      std::make_shared<ReplicaStrands>([this](size_t) -> Executor& { return turns_; });
  const std::shared_ptr<GangGroup> group_ =
      std::make_shared<GangGroup>(std::make_unique<HeldCommunicator>(events_, calls_), turns_);
  Result result_;
};

// Of w2, b1 and w1, and then the loss.
testing::Matcher<Events> InTheReverseOfTheModel() {
  return ElementsAre("start bucket 0 with gradient/MatMul_1/Gemm_1:0",
                     "start bucket 1 with gradient/Add/ReduceToShapeOf:0",
                     "start bucket 2 with gradient/MatMul/Gemm:0",
                     "start bucket 3 with SoftmaxCrossEntropyLoss:0");
}

TEST(EarlySums, TheLastLayersSumStartsBeforeTheFirstLayersGradientIsComputed) {
  HeldStep step(1, /*overlap=*/true);
  step.Run();
  EXPECT_THAT(step.Starts(), InTheReverseOfTheModel());
  EXPECT_LT(step.IndexOf("bucket 0"), step.LastNode()) << testing::PrintToString(step.events());
  EXPECT_LT(step.IndexOf("bucket 1"), step.LastNode());
  EXPECT_FALSE(step.result().has_value()) << "no update before all sums are there";
  step.Answer(absl::OkStatus());
  ASSERT_TRUE(step.result().has_value());
  EXPECT_TRUE((*step.result()).ok()) << (*step.result()).status();
}

TEST(EarlySums, WithoutOverlapNothingStartsBeforeAllIsComputed) {
  HeldStep step(1, /*overlap=*/false);
  step.Run();
  EXPECT_THAT(step.Starts(), InTheReverseOfTheModel());
  EXPECT_GT(step.IndexOf("bucket 0"), step.LastNode());
}

// The first replica has run to its end when the second one begins.
TEST(EarlySums, ASumStartsWhenAllReplicasHereHaveTheirShareOfIt) {
  HeldStep alone(1, true);
  alone.Run();
  const size_t nodes = alone.events().size() - alone.Starts().size();
  HeldStep step(2, true);
  step.Run();
  EXPECT_THAT(step.Starts(), InTheReverseOfTheModel());
  EXPECT_EQ(step.IndexOf("bucket 0"), nodes + alone.IndexOf("bucket 0"));
  EXPECT_LT(step.IndexOf("bucket 0"), step.LastNode());
}

// A rank is lost, which the first call is told while the backward pass runs.
TEST(EarlySums, WhatTheGroupHasEndedWithEndsTheStepThatIsComputed) {
  HeldStep step(2, true);
  step.Run([&step](const std::string&) {
    if (step.held().size() == 2) step.Answer(absl::UnavailableError("rank 1 was lost"));
    return absl::OkStatus();
  });
  ASSERT_TRUE(step.result().has_value());
  EXPECT_EQ(step.result()->status(), absl::UnavailableError("rank 1 was lost")) << "as it is";
  EXPECT_EQ(step.Starts().size(), 2u) << "and nothing begins any more";
}

// This member's own node fails when sums are under way.
TEST(EarlySums, WhatIsUnderWayKeepsItsMemoryWhenTheStepFails) {
  HeldStep step(1, true);
  step.Run([&step](const std::string&) {
    return step.held().size() == 2 ? absl::ResourceExhaustedError("no room") : absl::OkStatus();
  });
  ASSERT_TRUE(step.result().has_value()) << "nobody waits for what is under way";
  EXPECT_THAT(step.result()->status().message(), AllOf(HasSubstr("no room"), HasSubstr("node")));
  ASSERT_EQ(step.held().size(), 2u);
  std::vector<std::shared_ptr<Buffer>> taken;
  for (const auto& held : step.held()) {
    std::memset(held.call.output.data(), 1, held.call.output.size());  // as a transport does
    taken.push_back(step.group().Take(held.call.output.size()));
    for (const auto& other : step.held()) EXPECT_NE(taken.back()->data(), other.call.output.data());
  }
  const std::byte* const last = step.held()[1].call.output.data();
  const size_t bytes = step.held()[1].call.output.size();
  step.Answer(absl::CancelledError("aborted"));
  EXPECT_EQ(step.group().Take(bytes)->data(), last) << "then it is free";
}

// So many workers, with so many replicas each, over a real communicator.
struct Spread {
  size_t workers = 1;
  int replicas = 1;
  bool overlap = true;
};

ReplicatedRun::Outputs RunSpread(const Spread& spread, int64_t rows) {
  RealClock clock;
  TasksInTurn turns;
  std::vector<Result> results(spread.workers);
  InProcessGroup ranks(clock, turns, {{"workers", 1}, static_cast<int>(spread.workers), 1});
  const NodeHook nothing = [](const std::string&) { return absl::OkStatus(); };
  for (size_t rank = 0; rank < spread.workers; ++rank) {
    auto strands = std::make_shared<ReplicaStrands>([&](size_t) -> Executor& { return turns; });
    const std::shared_ptr<GangGroup> group =
        spread.workers == 1
            ? nullptr
            : std::make_shared<GangGroup>(ranks.CommunicatorOf(static_cast<int>(rank)), turns);
    auto run = std::make_shared<ReplicatedRun>(
        MakeStep(spread.replicas, spread.overlap, nothing), strands, group,
        ReplicatedRun::Values{Inputs(rows), {}}, RunContext{},
        [&results, rank](auto outputs) { results[rank] = std::move(outputs); });
    strands->Of(0).Post([run] { run->Start(); });
  }
  turns.RunAll();
  for (size_t rank = 0; rank < spread.workers; ++rank) {
    EXPECT_TRUE(results[rank].has_value() && results[rank]->ok()) << "rank " << rank;
    for (size_t i = 0; i < (*results[rank])->size(); ++i) {
      EXPECT_EQ((**results[rank])[i][0].span<float>(), (**results[0])[i][0].span<float>());
    }
  }
  return **results[0];
}

// Batches of 6 and 3 leave replicas with fewer examples, or none.
TEST(EarlySums, TheBitsAreThoseOfSumsBehindTheComputation) {
  for (const int64_t rows : {8, 6, 3}) {
    const ReplicatedRun::Outputs one = RunSpread({1, 4, false}, rows);
    for (const bool overlap : {false, true}) {
      for (const Spread& spread : {Spread{2, 2, overlap}, Spread{4, 1, overlap}}) {
        const ReplicatedRun::Outputs other = RunSpread(spread, rows);
        ASSERT_EQ(other.size(), 4u);
        for (size_t i = 0; i < other.size(); ++i) {
          EXPECT_EQ(other[i][0].span<float>(), one[i][0].span<float>())
              << "output " << i << ", " << spread.workers << " workers, " << rows << " rows";
        }
      }
    }
  }
}

}  // namespace
}  // namespace cohort
