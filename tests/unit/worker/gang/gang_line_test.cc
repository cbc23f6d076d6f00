// The order of gangs on a worker.

#include "worker/gang/gang_line.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "common/wire/error_detail.h"

namespace cohort {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

class GangLineTest : public testing::Test {
 protected:
  static proto::Gang Gang(uint64_t generation, uint64_t sequence) {
    proto::Gang gang;
    gang.set_generation(generation);
    gang.set_sequence(sequence);
    return gang;
  }
  void Wait(uint64_t generation, uint64_t sequence) {
    line_.Wait(Gang(generation, sequence), [this, generation, sequence](const absl::Status& turn) {
      const std::string name = std::to_string(generation) + "." + std::to_string(sequence);
      (turn.ok() ? began_ : refused_).push_back(name);
      if (turn.ok()) return;
      EXPECT_TRUE(absl::IsAborted(turn));
      EXPECT_EQ(ClassOf(turn), proto::TRANSIENT);
    });
  }
  void End(uint64_t generation, uint64_t sequence, bool ended_well = true) {
    line_.End(Gang(generation, sequence), ended_well);
  }

  GangLine line_;
  std::vector<std::string> began_, refused_;
};

TEST_F(GangLineTest, GangsBeginInTheirOrderWhateverOrderTheyComeIn) {
  Wait(1, 3);
  Wait(1, 2);
  EXPECT_THAT(began_, IsEmpty());
  Wait(1, 1);
  EXPECT_THAT(began_, ElementsAre("1.1"));
  End(1, 1);
  EXPECT_THAT(began_, ElementsAre("1.1", "1.2"));
  End(1, 2);
  End(1, 3);
  Wait(1, 4);
  EXPECT_THAT(began_, ElementsAre("1.1", "1.2", "1.3", "1.4"));
  EXPECT_THAT(refused_, IsEmpty());
}

TEST_F(GangLineTest, AGangThatFailsEndsItsGeneration) {
  Wait(1, 1);
  Wait(1, 3);
  End(1, 1, false);
  Wait(1, 2);
  EXPECT_THAT(began_, ElementsAre("1.1"));
  EXPECT_THAT(refused_, ElementsAre("1.3", "1.2"));
  for (const uint64_t refused : {2, 3}) End(1, refused, false);
  Wait(2, 2);
  Wait(2, 1);
  EXPECT_THAT(began_, ElementsAre("1.1", "2.1"));
}

TEST_F(GangLineTest, OneThatWasRefusedBeforeItCouldWaitBreaksTheLineToo) {
  Wait(1, 2);
  End(1, 1, false);
  EXPECT_THAT(refused_, ElementsAre("1.2"));
  End(2, 1, false);
  Wait(2, 2);
  EXPECT_THAT(refused_, ElementsAre("1.2", "2.2"));
}

TEST_F(GangLineTest, ALaterGenerationReplacesTheOneBefore) {
  Wait(1, 1);
  Wait(1, 2);
  Wait(2, 1);
  EXPECT_THAT(began_, ElementsAre("1.1", "2.1"));
  EXPECT_THAT(refused_, ElementsAre("1.2"));
  End(1, 1);  // of before: it moves nobody
  Wait(2, 2);
  Wait(1, 3);
  EXPECT_THAT(began_, ElementsAre("1.1", "2.1"));
  EXPECT_THAT(refused_, ElementsAre("1.2", "1.3"));
  End(2, 1);
  EXPECT_THAT(began_, ElementsAre("1.1", "2.1", "2.2"));
}

TEST_F(GangLineTest, AnotherCoordinatorsGenerationsBeginAnew) {
  Wait(5, 1);
  Wait(5, 2);
  line_.Restart();
  EXPECT_THAT(refused_, ElementsAre("5.2"));
  Wait(1, 1);
  EXPECT_THAT(began_, ElementsAre("5.1", "1.1"));
}

}  // namespace
}  // namespace cohort
