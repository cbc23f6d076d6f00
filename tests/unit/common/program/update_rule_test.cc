#include "common/program/update_rule.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <map>
#include <string>
#include <utility>

namespace cohort {
namespace {

proto::UpdateRule Rule(const std::string& op, const std::map<std::string, double>& parameters) {
  proto::UpdateRule rule;
  rule.set_op(op);
  for (const auto& [name, value] : parameters) {
    auto* parameter = rule.add_parameters();
    parameter->set_name(name);
    parameter->set_value(value);
  }
  return rule;
}

// "accumulator=0.1 momentum=0".
std::string Slots(const proto::UpdateRule& rule) {
  const auto spec = DescribeUpdateRule(rule);
  if (!spec.ok()) return std::string(spec.status().message());
  std::string text;
  for (const SlotSpec& slot : spec->slots) {
    char value[32];
    snprintf(value, sizeof value, "%g", static_cast<double>(slot.initial_value));
    text += (text.empty() ? "" : " ") + slot.name + "=" + (slot.starts_as_value ? "value" : value) +
            (slot.per_row ? " per row" : "");
  }
  return text;
}

TEST(UpdateRule, HasKerassSlots) {
  EXPECT_EQ(Slots(Rule("sgd", {})), "");
  EXPECT_EQ(Slots(Rule("sgd", {{"momentum", 0.9}, {"nesterov", 1}})), "momentum=0");
  EXPECT_EQ(Slots(Rule("adagrad", {})), "accumulator=0.1");
  EXPECT_EQ(Slots(Rule("adagrad", {{"initial_accumulator_value", 0.5}})), "accumulator=0.5");
  EXPECT_EQ(Slots(Rule("rmsprop", {})), "velocity=0");
  EXPECT_EQ(Slots(Rule("rmsprop", {{"momentum", 0.1}})), "velocity=0 momentum=0");
  EXPECT_EQ(Slots(Rule("rmsprop", {{"momentum", 0.1}, {"centered", 1}})),
            "velocity=0 momentum=0 average_gradient=0");
  EXPECT_EQ(Slots(Rule("adam", {})), "m=0 v=0");
  EXPECT_EQ(Slots(Rule("adam", {{"amsgrad", 1}})), "m=0 v=0 vhat=0");
  EXPECT_EQ(Slots(Rule("adamax", {})), "m=0 u=0");
  EXPECT_EQ(Slots(Rule("nadam", {})), "m=0 v=0");
  EXPECT_EQ(Slots(Rule("adadelta", {})), "accumulated_grad=0 accumulated_delta_var=0");
  EXPECT_EQ(Slots(Rule("ftrl", {})), "accumulator=0.1 linear=0");
  EXPECT_EQ(Slots(Rule("assign_add", {})), "");
  EXPECT_EQ(Slots(Rule("rowwise_adagrad", {})), "accumulator=0.1 per row");
  EXPECT_EQ(Slots(Rule("adam", {{"use_ema", 1}})), "m=0 v=0 average=value");
  EXPECT_EQ(Slots(Rule("lion", {})), "m=0");
  EXPECT_EQ(Slots(Rule("lamb", {})), "m=0 v=0");
  EXPECT_EQ(Slots(Rule("adafactor", {})), "r=0 c=0");
  EXPECT_EQ(Slots(Rule("muon", {})), "momentum=0");
  EXPECT_EQ(Slots(Rule("adam", {{"gradient_accumulation_steps", 2}, {"use_ema", 1}})),
            "m=0 v=0 gradient_accumulator=0 average=value");
  EXPECT_EQ(Slots(Rule("sgd", {{"gradient_accumulation_steps", 1}})), "");
}

TEST(UpdateRule, AdafactorsSlotsLackADimension) {
  const std::vector<SlotSpec> slots = DescribeUpdateRule(Rule("adafactor", {}))->slots;
  EXPECT_EQ(ShapeOfSlot(slots[0], Shape{2, 3, 5}), (Shape{2, 3}));
  EXPECT_EQ(ShapeOfSlot(slots[1], Shape{2, 3, 5}), (Shape{2, 5}));
  EXPECT_EQ(ShapeOfSlot(slots[1], Shape{3, 5}), (Shape{5}));
  EXPECT_EQ(ShapeOfSlot(slots[0], Shape{7}), (Shape{7}));
  EXPECT_EQ(ShapeOfSlot(slots[1], Shape{}), (Shape{}));
}

TEST(UpdateRule, SaysWhatItNeedsOfTheVariable) {
  for (const char* op : {"adafactor", "lamb", "muon"}) {
    EXPECT_TRUE(DescribeUpdateRule(Rule(op, {}))->whole) << op;
    EXPECT_TRUE(DescribeUpdateRule(Rule(op, {}))->on_processor) << op;
  }
  EXPECT_FALSE(DescribeUpdateRule(Rule("lion", {}))->whole);
  const auto accumulates = DescribeUpdateRule(Rule("sgd", {{"gradient_accumulation_steps", 3}}));
  EXPECT_FALSE(accumulates->whole);
  EXPECT_TRUE(accumulates->on_processor);
  EXPECT_TRUE(accumulates->sweeps);
  EXPECT_TRUE(CheckRuleFits(Rule("muon", {}), Shape{3, 4}).ok());
  EXPECT_FALSE(CheckRuleFits(Rule("muon", {}), Shape{3}).ok());
  EXPECT_TRUE(CheckRuleFits(Rule("lamb", {}), Shape{3}).ok());
}

proto::UpdateRule Sparse(proto::UpdateRule rule, proto::SparseMode mode) {
  rule.set_sparse(mode);
  return rule;
}

TEST(UpdateRule, CompensatedModesKeepTheLastStepOfARowWhereRowsChangeWithoutAGradient) {
  const auto slots = [](const proto::UpdateRule& rule) {
    return Slots(Sparse(rule, proto::LAZY_COMPENSATED));
  };
  EXPECT_EQ(slots(Rule("sgd", {})), "");
  EXPECT_EQ(slots(Rule("adagrad", {})), "accumulator=0.1");
  EXPECT_EQ(slots(Rule("assign_add", {})), "");
  EXPECT_EQ(slots(Rule("sgd", {{"weight_decay", 0.1}})), "last_step=0 per row");
  EXPECT_EQ(slots(Rule("ftrl", {})), "accumulator=0.1 linear=0 last_step=0 per row");
  EXPECT_EQ(slots(Rule("adam", {{"use_ema", 1}})), "m=0 v=0 last_step=0 per row average=value");
  EXPECT_EQ(Slots(Sparse(Rule("adam", {}), proto::LAZY)), "m=0 v=0");
}

TEST(UpdateRule, SweepsWhereDenseExactChangesOtherRows) {
  const auto sweeps = [](const proto::UpdateRule& rule) {
    return DescribeUpdateRule(rule)->sweeps;
  };
  EXPECT_FALSE(sweeps(Rule("sgd", {})));
  EXPECT_FALSE(sweeps(Rule("rowwise_adagrad", {})));
  EXPECT_FALSE(sweeps(Rule("assign_add", {})));
  EXPECT_TRUE(sweeps(Rule("sgd", {{"momentum", 0.9}})));
  EXPECT_TRUE(sweeps(Rule("adagrad", {{"weight_decay", 0.1}})));
  EXPECT_TRUE(sweeps(Rule("adagrad", {{"use_ema", 1}})));
  EXPECT_TRUE(sweeps(Rule("rmsprop", {})));
  EXPECT_FALSE(sweeps(Sparse(Rule("rmsprop", {}), proto::LAZY)));
  EXPECT_FALSE(sweeps(Sparse(Rule("rmsprop", {}), proto::LAZY_COMPENSATED)));
}

TEST(UpdateRule, RefusesWhatASparseModeCannotDo) {
  using testing::HasSubstr;
  const proto::UpdateRule overwrites =
      Rule("adam", {{"use_ema", 1}, {"ema_overwrite_frequency", 5}});
  EXPECT_THAT(Slots(Sparse(overwrites, proto::LAZY)), HasSubstr("must be dense_exact"));
  EXPECT_THAT(
      Slots(Sparse(Rule("adam", {{"beta_1", 0.95}, {"beta_2", 0.9}}), proto::LAZY_COMPENSATED)),
      HasSubstr("beta_1^2 < beta_2"));
  EXPECT_THAT(
      Slots(Sparse(Rule("adamax", {{"beta_1", 0.9}, {"beta_2", 0.9}}), proto::LAZY_COMPENSATED)),
      HasSubstr("beta_1 < beta_2"));
  EXPECT_THAT(Slots(Sparse(Rule("adam", {{"beta_1", 0.95}, {"beta_2", 0.9}, {"amsgrad", 1}}),
                           proto::LAZY_COMPENSATED)),
              HasSubstr("vhat"));
  EXPECT_THAT(Slots(Sparse(Rule("sgd", {}), static_cast<proto::SparseMode>(7))),
              HasSubstr("sparse mode 7 is unknown"));
  EXPECT_THAT(Slots(Sparse(Rule("lamb", {}), proto::LAZY)), HasSubstr("the whole variable"));
  EXPECT_THAT(Slots(Sparse(Rule("lion", {}), proto::LAZY_COMPENSATED)), HasSubstr("sign"));
  EXPECT_EQ(Slots(Sparse(Rule("lion", {}), proto::LAZY)), "m=0");
  EXPECT_THAT(Slots(Sparse(Rule("sgd", {{"gradient_accumulation_steps", 2}}), proto::LAZY)),
              HasSubstr("gradient_accumulation_steps = 2"));
}

TEST(UpdateRule, NamesWhatIsWrong) {
  using testing::HasSubstr;
  EXPECT_THAT(Slots(Rule("lynx", {})), HasSubstr("unknown optimizer \"lynx\""));
  EXPECT_THAT(Slots(Rule("sgd", {{"beta_1", 0.9}})), HasSubstr("no parameter \"beta_1\""));
  EXPECT_THAT(Slots(Rule("adam", {{"beta_1", 1}})), HasSubstr("beta_1 = 1"));
  EXPECT_THAT(Slots(Rule("sgd", {{"nesterov", 0.5}})), HasSubstr("0 or 1"));
  EXPECT_THAT(Slots(Rule("adam", {{"epsilon", std::numeric_limits<double>::quiet_NaN()}})),
              HasSubstr("0 or more"));
  EXPECT_THAT(Slots(Rule("ftrl", {{"learning_rate_power", 0.5}})), HasSubstr("0 or less"));
  EXPECT_THAT(Slots(Rule("sgd", {{"ema_overwrite_frequency", 1.5}})), HasSubstr("whole number"));
  EXPECT_THAT(Slots(Rule("sgd", {{"ema_overwrite_frequency", 1e300}})), HasSubstr("whole number"));
  EXPECT_THAT(Slots(Rule("muon", {{"ns_steps", 101}})), HasSubstr("from 0 to 100"));
  EXPECT_THAT(Slots(Rule("assign_add", {{"weight_decay", 1}})), HasSubstr("it has none"));
  proto::UpdateRule twice = Rule("adam", {{"epsilon", 1e-7}});
  *twice.add_parameters() = twice.parameters(0);
  EXPECT_THAT(Slots(twice), HasSubstr("given twice"));
}

TEST(ParameterOf, TakesTheValueOrTheDefault) {
  EXPECT_EQ(ParameterOf(Rule("sgd", {{"momentum", 0.25}}), "momentum"), 0.25);
  EXPECT_EQ(ParameterOf(Rule("adam", {}), "beta_2"), 0.999);
}

TEST(UpdateRule, AConstraintChangesAllRowsAndMayNeedTheWhole) {
  using testing::HasSubstr;
  const auto rows = DescribeUpdateRule(Rule("sgd", {{"constraint", 2}}));
  ASSERT_TRUE(rows.ok()) << rows.status();
  EXPECT_TRUE(rows->sweeps);
  EXPECT_FALSE(rows->whole);
  EXPECT_TRUE(rows->on_processor);
  proto::UpdateRule whole = Rule("adam", {{"constraint", 1},
                                          {"constraint_count", 4},
                                          {"constraint_stride", 3},
                                          {"constraint_whole", 1}});
  EXPECT_TRUE(DescribeUpdateRule(whole)->whole);
  EXPECT_TRUE(CheckRuleFits(whole, Shape({4, 3})).ok());
  EXPECT_THAT(std::string(CheckRuleFits(whole, Shape({5, 3})).message()),
              HasSubstr("norms of 12 elements does not fit a variable of shape [5,3]"));
  EXPECT_FALSE(CheckRuleFits(Rule("sgd", {{"constraint", 5}}), Shape({2})).ok());
  EXPECT_FALSE(
      CheckRuleFits(Rule("sgd", {{"constraint", 3}, {"constraint_count", 0}}), Shape({2})).ok());
  whole.set_sparse(proto::LAZY);
  EXPECT_THAT(Slots(whole), HasSubstr("the variable has a constraint"));
  proto::UpdateRule by_row = Rule("adam", {{"constraint", 1}, {"constraint_count", 3}});
  by_row.set_sparse(proto::LAZY);
  EXPECT_TRUE(DescribeUpdateRule(by_row).ok());
  by_row.set_sparse(proto::LAZY_COMPENSATED);
  EXPECT_THAT(Slots(by_row), HasSubstr("must be dense_exact or lazy"));
}

TEST(ParametersOf, AreNoneOfAnUnknownOperator) {
  EXPECT_TRUE(ParametersOf("lynx").empty());
  EXPECT_TRUE(ParametersOf("assign_add").empty());
  EXPECT_FALSE(ParametersOf("ftrl").empty());
}

}  // namespace
}  // namespace cohort
