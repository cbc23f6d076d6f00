#include "common/runtime/update/update_kernel.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "common/program/update_rule.h"
#include "common/runtime/update/make_update_kernel.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/unit/common/runtime/golden_updates.h"
#include "tests/unit/common/runtime/random_updates.h"

namespace cohort {
namespace {

std::vector<SlotSpans> Spans(const Slots& in, Slots& out) {
  std::vector<SlotSpans> spans;
  for (size_t i = 0; i < in.size(); ++i) spans.push_back({in[i], absl::MakeSpan(out[i])});
  return spans;
}
std::vector<SlotSpans> InPlace(Slots& slots) { return Spans(slots, slots); }

// 1e-6 of the largest value that the element has had: on its way through zero an element keeps the
// rounding errors of the sizes that it came from, in any float32 arithmetic.
void ExpectClose(const std::vector<float>& actual, const std::vector<double>& expected,
                 std::vector<double>& largest) {
  for (size_t i = 0; i < expected.size(); ++i) {
    largest[i] = std::max(largest[i], std::abs(expected[i]));
    ASSERT_NEAR(actual[i], expected[i], 1e-6 * largest[i]) << "element " << i;
  }
}

TEST(UpdateKernelTest, FollowsKerasFor100Steps) {
  const Golden golden = ReadGolden();
  ASSERT_EQ(golden.cases.size(), 36u);
  for (const GoldenCase& each : golden.cases) {
    for (const bool in_place : {true, false}) {
      SCOPED_TRACE(each.label + (in_place ? " in place" : " into a fresh buffer"));
      const auto kernel = MakeUpdateKernel(each.rule);
      ASSERT_TRUE(kernel.ok()) << kernel.status();
      Slots slots = MakeSlots(each.rule, golden.start, golden.width);
      std::vector<float> value = golden.start;
      std::vector<double> largest;
      for (const float start : value) largest.push_back(std::abs(start));
      size_t shown = 0;
      for (size_t step = 1; step <= golden.gradients.size(); ++step) {
        const float nan = std::numeric_limits<float>::quiet_NaN();
        std::vector<float> fresh(value.size(), nan);
        Slots fresh_slots = slots;
        for (std::vector<float>& slot : fresh_slots) slot.assign(slot.size(), nan);
        UpdateStep update;
        update.row_width = golden.width;
        update.gradient = golden.gradients[step - 1];
        update.value_in = value;
        update.value_out = absl::MakeSpan(in_place ? value : fresh);
        update.slots = Spans(slots, in_place ? slots : fresh_slots);
        update.learning_rate = each.learning_rate;
        update.step = step;
        (*kernel)->Apply(update);
        if (!in_place) {
          value = fresh;
          slots = fresh_slots;
        }
        if (each.values[shown].first != step) continue;
        ExpectClose(value, each.values[shown++].second, largest);
      }
      EXPECT_EQ(shown, each.values.size());
    }
  }
}

// As the ps cuts gradients, and as sparse pushes bring rows.
TEST(UpdateKernelTest, AnySplitIntoRowsGivesTheSameBits) {
  const Golden golden = ReadGolden();
  const size_t width = golden.width;
  for (const GoldenCase& each : golden.cases) {
    SCOPED_TRACE(each.label);
    const auto kernel = MakeUpdateKernel(each.rule);
    std::vector<float> whole = golden.start;
    std::vector<float> parts = golden.start;
    Slots whole_slots = MakeSlots(each.rule, golden.start, width);
    Slots part_slots = whole_slots;
    for (uint64_t step = 1; step <= 5; ++step) {
      const std::vector<float>& gradient = golden.gradients[step - 1];
      (*kernel)->Apply(
          {gradient, whole, absl::MakeSpan(whole), InPlace(whole_slots), 0.01, step, width});
      for (const auto& [row, rows] : {std::pair<size_t, size_t>{0, 1}, {1, 3}, {4, 2}}) {
        std::vector<SlotSpans> slots = InPlace(part_slots);
        for (SlotSpans& slot : slots) {
          const size_t each_row = slot.in.size() * width / parts.size();
          slot = {slot.in.subspan(row * each_row, rows * each_row),
                  slot.out.subspan(row * each_row, rows * each_row)};
        }
        const auto value = absl::MakeSpan(parts).subspan(row * width, rows * width);
        (*kernel)->Apply({absl::MakeConstSpan(gradient).subspan(row * width, rows * width), value,
                          value, slots, 0.01, step, width});
      }
    }
    EXPECT_EQ(whole, parts);
    EXPECT_EQ(whole_slots, part_slots);
  }
}

// More than the kernels hold in the first-level cache at once.
TEST(UpdateKernelTest, ALongSpanGivesTheBitsOfItsRows) {
  const Golden golden = ReadGolden();
  constexpr size_t kWidth = 48;
  std::vector<float> start;
  std::vector<float> gradient;
  while (start.size() < 200 * kWidth) {
    start.push_back(golden.start[start.size() % golden.start.size()]);
    gradient.push_back(golden.gradients[start.size() % 7][start.size() % golden.start.size()]);
  }
  for (const GoldenCase& each : golden.cases) {
    SCOPED_TRACE(each.label);
    const auto kernel = MakeUpdateKernel(each.rule);
    std::vector<float> whole = start;
    std::vector<float> rows = start;
    Slots whole_slots = MakeSlots(each.rule, start, kWidth);
    Slots row_slots = whole_slots;
    (*kernel)->Apply(
        {gradient, whole, absl::MakeSpan(whole), InPlace(whole_slots), 0.01, 5, kWidth});
    for (size_t begin = 0; begin < start.size(); begin += kWidth) {
      std::vector<SlotSpans> slots = InPlace(row_slots);
      for (SlotSpans& slot : slots) {
        const size_t each_row = slot.in.size() * kWidth / start.size();
        slot = {slot.in.subspan(begin / kWidth * each_row, each_row),
                slot.out.subspan(begin / kWidth * each_row, each_row)};
      }
      const auto value = absl::MakeSpan(rows).subspan(begin, kWidth);
      (*kernel)->Apply({absl::MakeConstSpan(gradient).subspan(begin, kWidth), value, value, slots,
                        0.01, 5, kWidth});
    }
    EXPECT_EQ(whole, rows);
    EXPECT_EQ(whole_slots, row_slots);
  }
}

// A checkpoint may lease some buffers and not others.
TEST(UpdateKernelTest, AnyMixOfInPlaceAndFreshBuffersGivesTheSameBits) {
  const Golden golden = ReadGolden();
  const float nan = std::numeric_limits<float>::quiet_NaN();
  for (const GoldenCase& each : golden.cases) {
    SCOPED_TRACE(each.label);
    const auto kernel = MakeUpdateKernel(each.rule);
    std::vector<float> expected = golden.start;
    Slots expected_slots = MakeSlots(each.rule, expected, golden.width);
    std::vector<float> value = expected;
    Slots slots = expected_slots;
    for (uint64_t step = 1; step <= 16; ++step) {
      const std::vector<float>& gradient = golden.gradients[step - 1];
      (*kernel)->Apply({gradient, expected, absl::MakeSpan(expected), InPlace(expected_slots), 0.01,
                        step, golden.width});
      std::vector<float> fresh(value.size(), nan);
      Slots fresh_slots = slots;
      for (std::vector<float>& slot : fresh_slots) slot.assign(slot.size(), nan);
      const auto is_fresh = [&](size_t buffer) { return ((step >> buffer) & 1) != 0; };
      std::vector<SlotSpans> spans = InPlace(slots);
      for (size_t i = 0; i < slots.size(); ++i) {
        if (is_fresh(i + 1)) spans[i].out = absl::MakeSpan(fresh_slots[i]);
      }
      (*kernel)->Apply({gradient, value, absl::MakeSpan(is_fresh(0) ? fresh : value), spans, 0.01,
                        step, golden.width});
      if (is_fresh(0)) value = fresh;
      for (size_t i = 0; i < slots.size(); ++i) {
        if (is_fresh(i + 1)) slots[i] = fresh_slots[i];
      }
    }
    EXPECT_EQ(value, expected);
    EXPECT_EQ(slots, expected_slots);
  }
}

// Against the product as Keras multiplies it up, up to steps where nothing but beta_1 is left of
// it.
TEST(UpdateKernelTest, NadamKnowsTheProductOfItsMomentaAtAnyStep) {
  const double beta_1 = 0.99;
  const auto kernel = MakeUpdateKernel(RuleOf("nadam", {{"beta_1", beta_1}, {"beta_2", 0.5}}));
  const auto momentum = [&](double t) { return beta_1 * (1 - 0.5 * std::pow(0.96, t)); };
  double product = 1;
  for (uint64_t step = 1; step <= 3000; ++step) {
    const double t = static_cast<double>(step);
    product *= momentum(t);
    if (step % 100 > 2) continue;
    // From empty slots and a gradient of 1, and a big rate, so that the value is the quotient.
    std::vector<float> value = {0};
    Slots slots = {{0}, {0}};
    const std::vector<float> gradient = {1};
    (*kernel)->Apply({gradient, value, absl::MakeSpan(value), InPlace(slots), 1, step});
    const double next = momentum(t + 1);
    const double mean =
        next * (1 - beta_1) / (1 - product * next) + (1 - momentum(t)) / (1 - product);
    const double root = std::sqrt(0.5 / (1 - std::pow(0.5, t))) + 1e-7;
    ASSERT_NEAR(value[0], -mean / root, 3e-7 * mean / root) << "step " << step;
  }
}

// A schedule may end at 0, where the formula would divide by it.
TEST(UpdateKernelTest, FtrlWithoutALearningRateChangesNothing) {
  const auto kernel = MakeUpdateKernel(RuleOf("ftrl", {{"beta", 1}}));
  const std::vector<float> before = {1, -2};
  const std::vector<float> gradient = {3, 4};
  Slots slots = {{0.5f, 0.25f}, {7, 8}};
  const Slots slots_before = slots;
  std::vector<float> value(2);
  Slots fresh = {{0, 0}, {0, 0}};
  (*kernel)->Apply({gradient, before, absl::MakeSpan(value), Spans(slots, fresh), 0, 9});
  EXPECT_EQ(value, before);
  EXPECT_EQ(fresh, slots_before);
}

// Keras divides 0 by 0 here.
TEST(UpdateKernelTest, FtrlGivesZeroToAnElementThatHasNeverHadAGradient) {
  const auto kernel = MakeUpdateKernel(RuleOf("ftrl", {{"initial_accumulator_value", 0}}));
  std::vector<float> value = {1};
  Slots slots = {{0}, {0}};
  (*kernel)->Apply({std::vector<float>{0}, value, absl::MakeSpan(value), InPlace(slots), 0.1, 1});
  EXPECT_EQ(value[0], 0);
}

TEST(UpdateKernelTest, AssignAddAdds) {
  proto::UpdateRule rule;
  rule.set_op("assign_add");
  std::vector<float> value = {1, 2, 3};
  const std::vector<float> delta = {0.5f, -2, 1e6f};
  (*MakeUpdateKernel(rule))->Apply({delta, value, absl::MakeSpan(value), {}, 0.1, 1});
  EXPECT_THAT(value, testing::ElementsAre(1.5f, 0, 1000003));
}

TEST(UpdateKernelTest, EmptySlicesAreFine) {
  std::vector<proto::UpdateRule> rules = {RuleOf("assign_add", {})};
  for (const GoldenCase& each : ReadGolden().cases) rules.push_back(each.rule);
  for (const proto::UpdateRule& rule : rules) {
    Slots slots = MakeSlots(rule, {}, 3);
    (*MakeUpdateKernel(rule))->Apply({{}, {}, {}, InPlace(slots), 0.1, 1, 3});
  }
}

TEST(UpdateKernelTest, UnknownOpOrParameterIsNamed) {
  EXPECT_THAT(std::string(MakeUpdateKernel(RuleOf("lioness", {})).status().message()),
              testing::HasSubstr("lioness"));
  EXPECT_THAT(std::string(MakeUpdateKernel(RuleOf("sgd", {{"beta_1", 0}})).status().message()),
              testing::HasSubstr("beta_1"));
}

}  // namespace
}  // namespace cohort
