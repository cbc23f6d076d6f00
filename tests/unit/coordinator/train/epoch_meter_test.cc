#include "coordinator/train/epoch_meter.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "common/base/log.h"

namespace cohort {
namespace {

using testing::HasSubstr;
using testing::Not;

EpochMeter::Sums Loss(double loss) { return {1, {loss, 32.0}}; }

TEST(LossWatch, SaysTheFirstStepThatIsNoNumberAndNoOther) {
  ConfigureLog(LogLevel::kInfo, "chief:0");
  testing::internal::CaptureStderr();
  LossWatch watch;
  watch.See(1, {Loss(2.3), Loss(0), Loss(-1)});
  watch.See(4, {});
  watch.See(4, {Loss(1e300), Loss(std::numeric_limits<double>::quiet_NaN()), Loss(1)});
  watch.See(7, {Loss(std::numeric_limits<double>::infinity())});
  const std::string said = testing::internal::GetCapturedStderr();
  EXPECT_THAT(said, HasSubstr("event=loss_not_finite step=5 loss=nan"));
  EXPECT_THAT(said, Not(HasSubstr("step=7")));
}

TEST(LossWatch, SaysInfinity) {
  ConfigureLog(LogLevel::kInfo, "chief:0");
  testing::internal::CaptureStderr();
  LossWatch watch;
  watch.See(12, {Loss(-std::numeric_limits<double>::infinity())});
  EXPECT_THAT(testing::internal::GetCapturedStderr(),
              HasSubstr("event=loss_not_finite step=12 loss=-inf"));
}

// A step fetches loss_sum, count and the states of its metrics, which are lists.
FetchedTensors Fetched(float loss, const std::vector<double>& state) {
  const auto count = static_cast<int64_t>(state.size());
  return {Tensor::Scalar(loss), Tensor::Scalar(4.0f), Tensor::FromVector(state, Shape({count}))};
}

TEST(EpochMeter, AddsUpTheStatesOfMetricsElementByElement) {
  FetchedTensors closure = Fetched(2, {1, 10, 100});
  for (const Tensor& tensor : Fetched(6, {2, 20, 200})) closure.push_back(tensor);
  EpochMeter meter;
  meter.Add(EpochMeter::StepsOf(closure, 2));
  meter.Add(EpochMeter::StepsOf(Fetched(4, {3, 30, 300}), 1));
  const EpochMeter::Reading reading = meter.Read();
  EXPECT_EQ(reading.steps, 3);
  EXPECT_EQ(reading.examples, 12);
  EXPECT_EQ(reading.loss, 1);
  EXPECT_EQ(reading.states, (std::vector<double>{6, 60, 600}));
}

// Counts are whole numbers beyond what float32 can count.
TEST(EpochMeter, CountsBeyondTheWholeNumbersOfFloat32) {
  EpochMeter meter;
  meter.Add(EpochMeter::StepsOf(Fetched(0, {16777216.0}), 1));
  meter.Add(EpochMeter::StepsOf(Fetched(0, {1.0}), 1));
  EXPECT_EQ(meter.Read().states, std::vector<double>{16777217.0});
}

}  // namespace
}  // namespace cohort
