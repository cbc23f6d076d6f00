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

}  // namespace
}  // namespace cohort
