#include "coordinator/train/progress_bar.h"

#include <limits>

#include "gtest/gtest.h"

namespace cohort {
namespace {

ProgressLine Line(int64_t step, double loss) {
  ProgressLine line;
  line.step = step;
  line.steps = 4;
  line.elapsed = absl::Seconds(2);
  line.values = {{"loss", loss}};
  return line;
}

TEST(FormatProgress, IsThatOfKeras) {
  EXPECT_EQ(FormatProgress(Line(2, 0.25)),
            "2/4 [===============>..............] - 2.0s 1000.00ms/step - loss: 0.2500");
  EXPECT_EQ(FormatProgress(Line(4, 0.25)),
            "4/4 [==============================] - 2.0s 500.00ms/step - loss: 0.2500");
}

// x86 computes 0 / 0 with the sign bit set.
TEST(FormatProgress, ANanHasNoSign) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  EXPECT_EQ(FormatProgress(Line(4, nan)), FormatProgress(Line(4, -nan)));
  EXPECT_TRUE(FormatProgress(Line(4, -nan)).ends_with(" - loss: nan"));
}

}  // namespace
}  // namespace cohort
