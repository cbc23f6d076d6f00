#include "worker/collective/lanes/late_answers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace cohort {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

// Which frames were answered, in order. Thread-compatible.
class LateAnswersTest : public testing::Test {
 protected:
  void Take(int from, int frame, bool may_wait) {
    answers_.Taken(from, may_wait, [this, frame](const absl::Status& status) {
      EXPECT_TRUE(status.ok()) << status;
      answered_.push_back(frame);
    });
  }

  LateAnswers answers_{3};
  std::vector<int> answered_;
};

TEST_F(LateAnswersTest, FourAreAnsweredTogether) {
  for (int frame = 0; frame < 3; ++frame) Take(1, frame, true);
  EXPECT_THAT(answered_, IsEmpty());
  Take(1, 3, true);
  EXPECT_THAT(answered_, ElementsAre(0, 1, 2, 3));
  Take(1, 4, true);
  EXPECT_EQ(answered_.size(), 4u);
}

TEST_F(LateAnswersTest, OneThatIsWaitedForTakesThoseBeforeItAlong) {
  Take(2, 0, true);
  Take(2, 1, false);
  EXPECT_THAT(answered_, ElementsAre(0, 1));
  Take(2, 2, false);
  EXPECT_THAT(answered_, ElementsAre(0, 1, 2));
}

TEST_F(LateAnswersTest, RanksDoNotWaitForEachOther) {
  for (int frame = 0; frame < 3; ++frame) Take(1, frame, true);
  Take(2, 10, false);
  EXPECT_THAT(answered_, ElementsAre(10));
}

TEST_F(LateAnswersTest, AllAreReleasedAtTheEnd) {
  Take(1, 0, true);
  Take(2, 1, true);
  answers_.Release();
  EXPECT_THAT(answered_, ElementsAre(0, 1));
  answers_.Release();
  EXPECT_EQ(answered_.size(), 2u);
}

// What an answer sets off may bring the next frame.
TEST_F(LateAnswersTest, AnAnswerMayTakeAnotherFrame) {
  answers_.Taken(1, false, [this](const absl::Status&) { Take(1, 7, true); });
  EXPECT_THAT(answered_, IsEmpty());
  Take(1, 8, false);
  EXPECT_THAT(answered_, ElementsAre(7, 8));
}

}  // namespace
}  // namespace cohort
