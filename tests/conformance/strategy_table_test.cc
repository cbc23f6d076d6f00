// Cells of COMPATIBILITY.md's table of strategies that are the same question for each of them. The
// expectation is one_device's answer, with the same variables and examples.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "tests/sim/sim_cluster.h"
#include "tests/support/stepwise_training.h"

namespace cohort {
namespace {

constexpr int64_t kExamples = 7;  // of the batch; two replicas have 4 and 3

struct Answers {
  FetchedTensors evaluated;
  FetchedTensors predicted;
};

Answers AnswersOf(const std::string& type) {
  const JobSpec job =
      PerceptronJob({absl::StrCat("strategy.type=", type), R"(strategy.devices=["cpu:0","cpu:1"])",
                     R"(strategy.compute_devices=["cpu:0","cpu:1"])"});
  SimCluster cluster(1, type == kParameterServer ? 1 : 0, type == kMultiWorkerMirrored ? 2 : 1);
  const auto coordinator = cluster.Connect(CoordinatorOptionsOf(job));
  EXPECT_TRUE(coordinator.ok()) << coordinator.status();
  StepwiseTraining training(**coordinator, job, kExamples);
  EXPECT_TRUE(training.Begin().ok());
  const auto evaluated = training.RunOnce(training.plan().eval_step);
  const auto predicted = training.RunOnce(training.plan().predict);
  EXPECT_TRUE(evaluated.ok()) << evaluated.status();
  EXPECT_TRUE(predicted.ok()) << predicted.status();
  return {evaluated.value_or(FetchedTensors()), predicted.value_or(FetchedTensors())};
}

// Losses are float32; states of metrics are float64.
double NumberAt(const Tensor& tensor, int64_t k) {
  return tensor.dtype() == DType::kFloat64 ? tensor.data<double>()[k] : tensor.data<float>()[k];
}

void ExpectSame(const FetchedTensors& got, const FetchedTensors& wanted) {
  ASSERT_EQ(got.size(), wanted.size());
  for (size_t i = 0; i < got.size(); ++i) {
    ASSERT_EQ(got[i].shape(), wanted[i].shape());
    ASSERT_EQ(got[i].dtype(), wanted[i].dtype());
    for (int64_t k = 0; k < got[i].num_elements(); ++k) {
      EXPECT_NEAR(NumberAt(got[i], k), NumberAt(wanted[i], k), 1e-5);
    }
  }
}

class EachStrategy : public testing::TestWithParam<const char*> {};

TEST_P(EachStrategy, EvaluatesAsOneDeviceDoes) {
  const Answers wanted = AnswersOf("one_device");
  ASSERT_EQ(wanted.evaluated.size(), 3u);  // sum of losses, examples, state of the accuracy
  EXPECT_EQ(*wanted.evaluated[1].data<float>(), kExamples);
  ExpectSame(AnswersOf(GetParam()).evaluated, wanted.evaluated);
}

TEST_P(EachStrategy, PredictsAsOneDeviceDoes) {
  const Answers wanted = AnswersOf("one_device");
  ASSERT_EQ(wanted.predicted.size(), 1u);
  EXPECT_EQ(wanted.predicted[0].shape(), (Shape{kExamples, 10}));
  ExpectSame(AnswersOf(GetParam()).predicted, wanted.predicted);
}

INSTANTIATE_TEST_SUITE_P(Types, EachStrategy,
                         testing::Values("mirrored", "central_storage", "default",
                                         "parameter_server", "multi_worker_mirrored"));

}  // namespace
}  // namespace cohort
