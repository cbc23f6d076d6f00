#include "coordinator/api/home_memory.h"

#include "common/tensor/dtype.h"
#include "common/wire/error_detail.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace cohort {
namespace {

using ::testing::HasSubstr;

TaskLink Serving(uint64_t incarnation, uint64_t memory_bytes) {
  TaskLink link;
  link.task.set_role("ps");
  link.task.set_index(0);
  link.task.set_incarnation(incarnation);
  link.memory_bytes = memory_bytes;
  return link;
}

// 400 bytes of values, without slots.
proto::VariableLayout Variable() {
  proto::VariableLayout layout;
  layout.set_name("w");
  layout.set_dtype(static_cast<int32_t>(DType::kFloat32));
  layout.add_dims(100);
  layout.mutable_rule()->set_op("sgd");
  layout.add_slices()->set_row_count(100);
  return layout;
}

class HomeMemoryTest : public ::testing::Test {
 protected:
  // So many processes, each of which ends, with so many closures done when it did.
  absl::Status Lose(uint64_t limit, const std::vector<uint64_t>& done) {
    absl::Status status;
    for (const uint64_t closures : done) {
      status.Update(memory_.OnServing(Serving(++incarnation_, limit), closures));
      status.Update(memory_.OnLost(0, closures));
    }
    return status;
  }

  HomeMemory memory_{{Role::kPs, {0}, false}};
  uint64_t incarnation_ = 0;
};

TEST_F(HomeMemoryTest, RefusesWhatDoesNotFitAndForgetsIt) {
  ASSERT_TRUE(memory_.OnServing(Serving(1, 399), 0).ok());
  EXPECT_EQ(ClassOf(memory_.Add({Variable()})), proto::CONFIGURATION);
  ASSERT_TRUE(memory_.OnServing(Serving(2, 400), 0).ok());
  EXPECT_TRUE(memory_.Add({Variable()}).ok());
  proto::VariableLayout other = Variable();
  other.set_name("v");
  EXPECT_THAT(std::string(memory_.Add({other}).message()), HasSubstr("ps:0 needs 800 bytes"));
  EXPECT_TRUE(memory_.Add({Variable()}).ok());
}

TEST_F(HomeMemoryTest, AHomeThatDoesNotSayIsNotChecked) {
  ASSERT_TRUE(memory_.OnServing(Serving(1, 0), 0).ok());
  EXPECT_TRUE(memory_.Add({Variable()}).ok());
  EXPECT_TRUE(Lose(0, {5, 5, 5, 5, 5}).ok());
}

TEST_F(HomeMemoryTest, TheThirdLossWithNothingDoneBetweenEndsTheJobNamingNeedAndLimit) {
  ASSERT_TRUE(memory_.Add({Variable()}).ok());
  EXPECT_TRUE(Lose(799, {5, 5}).ok());
  const absl::Status hopeless = Lose(799, {5});
  EXPECT_EQ(ClassOf(hopeless), proto::CONFIGURATION);
  EXPECT_THAT(std::string(hopeless.message()), HasSubstr("ps:0 was lost 3 times"));
  EXPECT_THAT(std::string(hopeless.message()), HasSubstr("400 bytes for variables"));
  EXPECT_THAT(std::string(hopeless.message()), HasSubstr("of 799"));
}

TEST_F(HomeMemoryTest, AClosureThatIsDoneBetweenBeginsTheCountAnew) {
  ASSERT_TRUE(memory_.Add({Variable()}).ok());
  EXPECT_TRUE(Lose(799, {5, 5, 6, 6, 7, 7, 8}).ok());
}

TEST_F(HomeMemoryTest, AHomeWithTheMemoryMayBeLostAsOftenAsItLikes) {
  ASSERT_TRUE(memory_.Add({Variable()}).ok());
  EXPECT_TRUE(Lose(800, {5, 5, 5, 5, 5, 5, 5, 5}).ok());
}

// A process that dies while an epoch is claimed is not reported lost: the next one tells.
TEST_F(HomeMemoryTest, AProcessThatTakesThePlaceOfAnotherTellsOfItsLoss) {
  ASSERT_TRUE(memory_.Add({Variable()}).ok());
  for (uint64_t incarnation = 1; incarnation <= 3; ++incarnation) {
    EXPECT_TRUE(memory_.OnServing(Serving(incarnation, 799), 0).ok());
  }
  EXPECT_FALSE(memory_.OnServing(Serving(4, 799), 0).ok());
}

TEST_F(HomeMemoryTest, AProcessThatIsLostTwiceIsOneLoss) {
  ASSERT_TRUE(memory_.Add({Variable()}).ok());
  ASSERT_TRUE(memory_.OnServing(Serving(1, 799), 0).ok());
  for (int i = 0; i < 5; ++i) {
    EXPECT_TRUE(memory_.OnLost(0, 0).ok());
    EXPECT_TRUE(memory_.OnServing(Serving(1, 799), 0).ok());
  }
}

}  // namespace
}  // namespace cohort
