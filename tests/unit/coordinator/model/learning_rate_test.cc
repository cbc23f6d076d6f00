#include "coordinator/model/learning_rate.h"

#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/unit/coordinator/model/model_test_support.h"

namespace cohort {
namespace {

using nlohmann::json;

absl::StatusOr<JobSpec> JobWith(const json& learning_rate) {
  const json dense = {{"class_name", "Dense"}, {"config", {{"units", 3}}}};
  return MakeJob({{"class_name", "Sequential"}, {"config", {{"layers", {dense}}}}},
                 {{"class_name", "SGD"}, {"config", {{"learning_rate", learning_rate}}}},
                 "categorical_crossentropy", json::array());
}

TEST(LearningRate, FollowsKerasSchedules) {
  const json golden = ReadGolden("optimizers/schedules.json");
  ASSERT_EQ(golden.size(), 15u);
  for (const json& one : golden) {
    SCOPED_TRACE(one.at("schedule").dump());
    const absl::StatusOr<JobSpec> job = JobWith(one.at("schedule"));
    ASSERT_TRUE(job.ok()) << job.status();
    // What is written reads back to the same rates.
    const absl::StatusOr<JobSpec> again = ParseJob(JobToJson(*job), "again.json", {});
    ASSERT_TRUE(again.ok()) << again.status();
    EXPECT_EQ(again->compile, job->compile);
    for (const json& rate : one.at("rates")) {
      EXPECT_NEAR(LearningRateAt(again->compile.optimizer, rate.at(0).get<int64_t>()),
                  rate.at(1).get<double>(), 1e-12)
          << "step " << rate.at(0);
    }
  }
}

TEST(LearningRate, IsTheNumberOfTheJobWithoutASchedule) {
  const absl::StatusOr<JobSpec> job = JobWith(0.25);
  ASSERT_TRUE(job.ok()) << job.status();
  EXPECT_EQ(LearningRateAt(job->compile.optimizer, 0), 0.25);
  EXPECT_EQ(LearningRateAt(job->compile.optimizer, 1'000'000), 0.25);
}

// Each period of these begins with the full rate, also where the logarithm of the step rounds.
TEST(LearningRate, RestartsAtTheFirstStepOfEachPeriod) {
  const absl::StatusOr<JobSpec> job = JobWith(
      {{"class_name", "CosineDecayRestarts"},
       {"config", {{"initial_learning_rate", 0.5}, {"first_decay_steps", 3}, {"t_mul", 3}}}});
  ASSERT_TRUE(job.ok()) << job.status();
  int64_t begin = 0;
  for (int64_t period = 3; period < int64_t{1} << 50; period *= 3) {
    EXPECT_DOUBLE_EQ(LearningRateAt(job->compile.optimizer, begin), 0.5) << begin;
    begin += period;
    EXPECT_LT(LearningRateAt(job->compile.optimizer, begin - 1), 0.4) << begin;
  }
}

TEST(LearningRate, WrongSchedulesAreNamed) {
  using testing::HasSubstr;
  const auto message = [](const char* class_name, const json& config) {
    const json form = {{"class_name", class_name}, {"config", config}};
    return std::string(JobWith(form).status().message());
  };
  EXPECT_THAT(message("CosinDecay", json::object()), HasSubstr("nearest is 'CosineDecay'"));
  EXPECT_THAT(message("CosineDecay", {{"initial_learning_rate", 1}, {"decay_steps", 0}}),
              HasSubstr("learning_rate.config.decay_steps: is 0"));
  EXPECT_THAT(message("CosineDecay", {{"decay_steps", 9}}), HasSubstr("initial_learning_rate"));
  EXPECT_THAT(message("CosineDecay", {{"t_mul", 9}}), HasSubstr("t_mul"));
  EXPECT_THAT(message("CosineDecayRestarts",
                      {{"initial_learning_rate", 1}, {"first_decay_steps", 5}, {"t_mul", 0.5}}),
              HasSubstr("t_mul: is 0.5"));
  EXPECT_THAT(message("PiecewiseConstantDecay", {{"boundaries", {1, 2}}, {"values", {1, 2}}}),
              HasSubstr("values: has 2 numbers for 2 boundaries"));
  EXPECT_THAT(message("PiecewiseConstantDecay", {{"boundaries", {2, 2}}, {"values", {1, 2, 3}}}),
              HasSubstr("boundaries: must grow"));
  EXPECT_THAT(message("PiecewiseConstantDecay", {{"boundaries", "1"}, {"values", {1, "x"}}}),
              testing::AllOf(HasSubstr("must be a list"), HasSubstr("has \"x\"")));
}

}  // namespace
}  // namespace cohort
