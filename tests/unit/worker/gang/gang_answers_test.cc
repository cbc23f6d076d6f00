// A gang's request that the network delivers twice.

#include "worker/gang/gang_answers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "common/wire/error_detail.h"

namespace cohort {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

class GangAnswersTest : public testing::Test {
 protected:
  static proto::RunClosureRequest Request(uint64_t epoch, uint64_t generation, uint64_t sequence) {
    proto::RunClosureRequest request;
    request.set_epoch(epoch);
    request.mutable_gang()->set_generation(generation);
    request.mutable_gang()->set_sequence(sequence);
    return request;
  }
  // Whether it is to run. `name` is for its answer.
  bool Begin(const proto::RunClosureRequest& request, const std::string& name) {
    return answers_.Begin(request, [this, name](GangAnswers::Answer answer) {
      EXPECT_TRUE(answer.ok() || ClassOf(answer.status()) == proto::STALE) << answer.status();
      (answer.ok() ? answered_ : stale_)
          .push_back(answer.ok() ? absl::StrCat(name, "=", answer->header.worker_position())
                                 : name);
    });
  }
  void End(const proto::RunClosureRequest& request, int64_t answer) {
    Envelope<proto::RunClosureResponse> response;
    response.header.set_worker_position(answer);
    answers_.End(request, std::move(response));
  }

  GangAnswers answers_;
  std::vector<std::string> answered_, stale_;
};

TEST_F(GangAnswersTest, ACopyThatComesBeforeTheEndGetsTheSameAnswer) {
  EXPECT_TRUE(Begin(Request(1, 1, 2), "first"));
  EXPECT_FALSE(Begin(Request(1, 1, 2), "copy"));
  EXPECT_TRUE(Begin(Request(1, 1, 1), "another"));
  End(Request(1, 1, 2), 7);
  EXPECT_THAT(answered_, ElementsAre("copy=7", "first=7"));
  End(Request(1, 1, 1), 8);
  EXPECT_THAT(answered_, ElementsAre("copy=7", "first=7", "another=8"));
  EXPECT_THAT(stale_, IsEmpty());
}

// Those behind it come at the place behind its last step.
TEST_F(GangAnswersTest, AClosureOfSeveralStepsTakesAsManyPlaces) {
  proto::RunClosureRequest steps = Request(1, 1, 1);
  steps.add_later_steps();
  steps.add_later_steps();
  EXPECT_TRUE(Begin(steps, "first"));
  End(steps, 7);
  for (const uint64_t sequence : {1, 2, 3}) {
    EXPECT_FALSE(Begin(Request(1, 1, sequence), absl::StrCat(sequence)));
  }
  EXPECT_THAT(stale_, ElementsAre("1", "2", "3"));
  EXPECT_TRUE(Begin(Request(1, 1, 4), "next"));
  End(Request(1, 1, 4), 8);
}

// STALE says that nobody knows what has become of it here.
TEST_F(GangAnswersTest, ACopyThatComesLaterNeitherRunsNorIsAnsweredAsOne) {
  for (const uint64_t sequence : {1, 3, 2}) {
    EXPECT_TRUE(Begin(Request(1, 4, sequence), "first"));
    End(Request(1, 4, sequence), 7);
    EXPECT_FALSE(Begin(Request(1, 4, sequence), absl::StrCat("copy of ", sequence)));
  }
  EXPECT_FALSE(Begin(Request(1, 4, 1), "copy of 1"));
  EXPECT_THAT(stale_, ElementsAre("copy of 1", "copy of 3", "copy of 2", "copy of 1"));
}

TEST_F(GangAnswersTest, AnotherGenerationAndAnotherEpochBeginAnew) {
  EXPECT_TRUE(Begin(Request(1, 1, 1), "a"));
  End(Request(1, 1, 1), 1);
  EXPECT_TRUE(Begin(Request(1, 2, 1), "b"));
  EXPECT_TRUE(Begin(Request(2, 1, 1), "another coordinator's first generation"));
  EXPECT_TRUE(Begin(Request(2, 2, 1), "not a copy of b, which still runs"));
  End(Request(1, 2, 1), 2);
  EXPECT_THAT(answered_, ElementsAre("a=1", "b=2"));
}

}  // namespace
}  // namespace cohort
