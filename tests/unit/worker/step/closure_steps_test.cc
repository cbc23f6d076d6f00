// Closures of several steps on a worker: each step is what a closure of its own would be.

#include "worker/step/closure_steps.h"

#include "common/wire/error_detail.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/inline_tensors.h"
#include "tests/unit/worker/test_programs.h"
#include "tests/unit/worker/worker_cluster.h"

namespace cohort {
namespace {

using testing::HasSubstr;

constexpr int kSteps = 6;
constexpr int64_t kBatch = 8;

double RateOf(int step) { return 0.5 / (1 + step); }

class ClosureStepsTest : public testing::Test {
 protected:
  using Answer = absl::StatusOr<Envelope<proto::RunClosureResponse>>;

  ClosureStepsTest() {
    EXPECT_TRUE(cluster_.Attach(1).ok());
    EXPECT_TRUE(cluster_.CreateVariables(Layouts()).ok());
    EXPECT_TRUE(cluster_.Register(train_, Layouts()).ok());
    proto::DatasetSpec spec;
    Tensor x(DType::kFloat32, Shape{kSteps * kBatch, 4});
    Tensor y(DType::kInt64, Shape{kSteps * kBatch});
    for (int64_t i = 0; i < x.num_elements(); ++i) {
      x.mutable_data<float>()[i] = static_cast<float>(i * 37 % 101) / 50 - 1;
    }
    for (int64_t i = 0; i < y.num_elements(); ++i) y.mutable_data<int64_t>()[i] = i * i % 3;
    AddInline(spec, x);
    AddInline(spec, y);
    spec.add_transforms()->mutable_batch()->set_size(kBatch);
    EXPECT_TRUE(cluster_.CreateDataset(1, spec).ok());
  }

  // Adam corrects by the number of the step.
  static std::vector<proto::VariableLayout> Layouts() {
    std::vector<proto::VariableLayout> layouts = PerceptronLayouts();
    proto::UpdateRule& rule = *layouts[0].mutable_rule();
    rule.set_op("adam");
    rule.clear_parameters();
    return layouts;
  }

  // Of the steps from `first` on, under the ids that these have.
  proto::RunClosureRequest Request(int first, int steps) {
    proto::RunClosureRequest request = cluster_.Closure(train_);
    request.set_closure_id(static_cast<uint64_t>(first) + 1);
    request.set_step(static_cast<uint64_t>(first) + 1);
    request.set_learning_rate(RateOf(first));
    request.mutable_split()->set_dataset_id(1);
    request.mutable_split()->mutable_position()->set_element(first);
    for (int i = 1; i < steps; ++i) {
      proto::LaterStep& later = *request.add_later_steps();
      later.mutable_position()->set_element(first + i);
      later.set_learning_rate(RateOf(first + i));
    }
    return request;
  }
  Answer Run(const proto::RunClosureRequest& request) {
    return cluster_.StartClosure(request).get();
  }
  static std::vector<float> LossesOf(const Answer& answer) {
    EXPECT_TRUE(answer.ok()) << answer.status();
    std::vector<float> losses;
    if (!answer.ok()) return losses;
    const auto fetched = ReadTensors(answer->header.fetches(), answer->payload);
    EXPECT_TRUE(fetched.ok()) << fetched.status();
    for (const Tensor& tensor : *fetched) losses.push_back(tensor.data<float>()[0]);
    return losses;
  }
  std::vector<float> Weights() {
    const proto::Program read = ReadProgram("w1", DType::kFloat32, {4, 6});
    EXPECT_TRUE(cluster_.Register(read, Layouts()).ok());
    proto::RunClosureRequest request = cluster_.Closure(read);
    request.set_closure_id(1000);
    const auto fetched = cluster_.Run(request);
    EXPECT_TRUE(fetched.ok()) << fetched.status();
    const auto span = (*fetched)[0].span<float>();
    return {span.begin(), span.end()};
  }

  WorkerCluster cluster_{2};
  proto::Program train_ = PerceptronProgram();
};

struct Outcomes {
  std::vector<float> losses, weights;
};

class OneByOne : public ClosureStepsTest {
 public:
  void TestBody() override {}
  Outcomes All() {
    Outcomes outcomes;
    for (int step = 0; step < kSteps; ++step) {
      for (const float loss : LossesOf(Run(Request(step, 1)))) outcomes.losses.push_back(loss);
    }
    outcomes.weights = Weights();
    return outcomes;
  }
};

TEST_F(ClosureStepsTest, LeavesWhatAsManyClosuresLeave) {
  const Outcomes wanted = OneByOne().All();
  ASSERT_EQ(wanted.losses.size(), static_cast<size_t>(kSteps));
  EXPECT_EQ(LossesOf(Run(Request(0, kSteps))), wanted.losses);
  EXPECT_EQ(Weights(), wanted.weights);
}

TEST_F(ClosureStepsTest, OfAResultThatNobodyReadsNothingIsSent) {
  const Outcomes wanted = OneByOne().All();
  proto::RunClosureRequest request = Request(0, kSteps);
  request.set_discard_fetches(true);
  const Answer answer = Run(request);
  ASSERT_TRUE(answer.ok()) << answer.status();
  EXPECT_EQ(answer->header.fetches_size(), 0);
  EXPECT_EQ(PayloadBytes(answer->payload), 0u);
  EXPECT_EQ(Weights(), wanted.weights);
}

TEST_F(ClosureStepsTest, AStepThatFailsLeavesThoseBeforeIt) {
  const Outcomes wanted = OneByOne().All();
  proto::RunClosureRequest request = Request(0, kSteps);
  request.mutable_later_steps(2)->mutable_position()->set_element(1000);
  const Answer answer = Run(request);
  ASSERT_TRUE(answer.ok()) << answer.status();
  ASSERT_TRUE(answer->header.has_failure());
  EXPECT_EQ(answer->header.failure().steps_done(), 3u);
  EXPECT_EQ(answer->header.failure().detail().error_class(), proto::INPUT);
  EXPECT_EQ(answer->header.failure().detail().closure_id(), 4u) << "the step's own";
  std::vector<float> losses = LossesOf(answer);
  EXPECT_EQ(losses.size(), 3u);
  for (const float loss : LossesOf(Run(Request(3, kSteps - 3)))) losses.push_back(loss);
  EXPECT_EQ(losses, wanted.losses);
  EXPECT_EQ(Weights(), wanted.weights);
}

TEST_F(ClosureStepsTest, AFirstStepThatFailsIsAnError) {
  proto::RunClosureRequest request = Request(0, 2);
  request.mutable_split()->mutable_position()->set_element(1000);
  const Answer answer = Run(request);
  EXPECT_EQ(ClassOf(answer.status()), proto::INPUT) << answer.status();
}

// Whoever has not heard the answer asks again: the slices know each step.
TEST_F(ClosureStepsTest, StepsThatRunAgainCountOnce) {
  const Outcomes wanted = OneByOne().All();
  LossesOf(Run(Request(0, 4)));
  proto::RunClosureRequest again = Request(0, kSteps);
  again.set_attempt(2);
  const std::vector<float> losses = LossesOf(Run(again));
  ASSERT_EQ(losses.size(), static_cast<size_t>(kSteps));
  EXPECT_EQ(losses[4], wanted.losses[4]);
  EXPECT_EQ(losses[5], wanted.losses[5]);
  EXPECT_EQ(Weights(), wanted.weights);
}

TEST_F(ClosureStepsTest, IsRefusedWithoutASplitAndInARoundOfOthers) {
  proto::RunClosureRequest request = Request(0, 2);
  request.clear_split();
  EXPECT_THAT(std::string(Run(request).status().message()), HasSubstr("name a split"));
  request = Request(0, 2);
  request.set_round(1);
  request.set_aggregate(2);
  EXPECT_THAT(std::string(Run(request).status().message()), HasSubstr("one by one"));
}

// Of three: the line goes on with the fourth place.
TEST_F(ClosureStepsTest, GangsOfSeveralStepsHaveAsManyPlacesInLine) {
  const Outcomes wanted = OneByOne().All();
  const auto gang = [&](int first, int steps) {
    proto::RunClosureRequest request = Request(first, steps);
    request.mutable_gang()->set_generation(1);
    request.mutable_gang()->set_sequence(static_cast<uint64_t>(first) + 1);
    request.set_round(static_cast<uint64_t>(first) + 1);
    request.set_aggregate(1);
    return request;
  };
  // What comes first waits for what is before it.
  auto second = cluster_.StartClosure(gang(3, 3));
  std::vector<float> losses = LossesOf(Run(gang(0, 3)));
  for (const float loss : LossesOf(second.get())) losses.push_back(loss);
  EXPECT_EQ(losses, wanted.losses);
  EXPECT_EQ(Weights(), wanted.weights);
  EXPECT_EQ(ClassOf(Run(gang(1, 1)).status()), proto::STALE) << "that place was taken";
}

}  // namespace
}  // namespace cohort
