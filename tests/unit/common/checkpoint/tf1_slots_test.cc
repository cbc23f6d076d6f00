#include "common/checkpoint/tf1_slots.h"

#include <gmock/gmock.h>

#include <cmath>

namespace cohort {
namespace {

std::vector<std::string> SuffixesOf(const Tf1Rule& rule) {
  std::vector<std::string> suffixes;
  for (const Tf1Slot& slot : Tf1SlotsOf(rule)) suffixes.push_back(slot.slot + slot.suffix);
  return suffixes;
}

TEST(Tf1Slots, EachRuleHasTheNamesOfTensorFlow) {
  using testing::ElementsAre;
  EXPECT_THAT(SuffixesOf({"sgd"}), ElementsAre("momentum/Momentum"));
  EXPECT_THAT(SuffixesOf({"adam"}), ElementsAre("m/Adam", "v/Adam_1"));
  EXPECT_THAT(SuffixesOf({"rmsprop"}), ElementsAre("velocity/RMSProp", "momentum/RMSProp_1"));
  EXPECT_THAT(SuffixesOf({"rmsprop", true}),
              ElementsAre("velocity/RMSProp", "average_gradient/RMSProp_1", "momentum/RMSProp_2"));
  EXPECT_THAT(SuffixesOf({"adagrad"}), ElementsAre("accumulator/Adagrad"));
  EXPECT_THAT(SuffixesOf({"ftrl"}), ElementsAre("accumulator/Ftrl", "linear/Ftrl_1"));
  EXPECT_THAT(SuffixesOf({"adadelta"}),
              ElementsAre("accumulated_grad/Adadelta", "accumulated_delta_var/Adadelta_1"));
  EXPECT_THAT(SuffixesOf({"adamax"}), testing::IsEmpty());
}

TEST(Tf1Slots, ATensorsNameIsSplitAtItsSlot) {
  const auto m = ParseTf1SlotName({"adam"}, "d1/kernel/Adam");
  ASSERT_TRUE(m.has_value());
  EXPECT_EQ(m->variable, "d1/kernel");
  EXPECT_EQ(m->slot.slot, "m");
  EXPECT_EQ(ParseTf1SlotName({"adam"}, "d1/kernel/Adam_1")->slot.slot, "v");
  EXPECT_EQ(ParseTf1SlotName({"sgd"}, "w/Momentum")->slot.value, Tf1SlotValue::kTimesNegativeRate);
  for (const char* other : {"d1/kernel", "d1/kernel/Adam_2", "beta1_power", "/Adam", "Adam"}) {
    EXPECT_FALSE(ParseTf1SlotName({"adam"}, other).has_value()) << other;
  }
  EXPECT_FALSE(ParseTf1SlotName({"sgd"}, "d1/kernel/Adam").has_value());
}

TEST(Tf1Slots, StepsFollowFromThePowerAsLongAsItHasDigits) {
  float power = 0.999f;
  for (int64_t step = 0; step <= 20000; ++step) {
    EXPECT_EQ(Tf1StepsOfPower(power, 0.999f), step);
    power *= 0.999f;
    if (step == 1000) {
      EXPECT_EQ(Tf1StepsOfPower(power, 0.999f), 1001);
    }
  }
  for (const double no_power : {0.0, -1.0, 1.0, 2.0, 1e-38, std::nan("")}) {
    EXPECT_FALSE(Tf1StepsOfPower(no_power, 0.999).has_value()) << no_power;
  }
  EXPECT_FALSE(Tf1StepsOfPower(0.5, 0).has_value());
}

}  // namespace
}  // namespace cohort
