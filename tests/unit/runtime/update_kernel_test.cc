#include "common/runtime/update_kernel.h"

#include <algorithm>
#include <cmath>
#include <fstream>
#include <limits>
#include <sstream>
#include <string>
#include <vector>

#include "common/program/update_rule.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace cohort {
namespace {

// One optimizer's run as Keras computed it (tests/golden/optimizers).
struct GoldenCase {
  std::string label;
  proto::UpdateRule rule;
  double learning_rate = 0;
  std::vector<std::pair<uint64_t, std::vector<double>>> values;  // by step
};

struct Golden {
  std::vector<float> start;
  std::vector<std::vector<float>> gradients;
  std::vector<GoldenCase> cases;
};

template <typename T>
std::vector<T> ReadNumbers(std::istream& in, size_t count) {
  std::vector<T> numbers(count);
  for (T& number : numbers) {
    double value = 0;
    in >> value;
    number = static_cast<T>(value);
  }
  return numbers;
}

Golden ReadGolden() {
  std::ifstream in(COHORT_SOURCE_DIR "/tests/golden/optimizers/optimizers.txt");
  Golden golden;
  size_t elements = 0;
  size_t steps = 0;
  in >> elements >> steps;
  golden.start = ReadNumbers<float>(in, elements);
  for (size_t i = 0; i < steps; ++i) golden.gradients.push_back(ReadNumbers<float>(in, elements));
  std::string word;
  while (in >> word) {
    if (word == "case") {
      GoldenCase next;
      std::string op;
      int parameters = 0;
      in >> op >> next.learning_rate >> parameters;
      next.rule.set_op(op);
      next.label = op;
      for (int i = 0; i < parameters; ++i) {
        proto::HyperParameter& parameter = *next.rule.add_parameters();
        double value = 0;
        in >> *parameter.mutable_name() >> value;
        parameter.set_value(value);
        next.label += " " + parameter.name();
      }
      golden.cases.push_back(next);
    } else {
      uint64_t step = 0;
      in >> step;
      golden.cases.back().values.emplace_back(step, ReadNumbers<double>(in, elements));
    }
  }
  return golden;
}

// The slots that the ps would allocate.
std::vector<std::vector<float>> MakeSlots(const proto::UpdateRule& rule, size_t elements) {
  std::vector<std::vector<float>> slots;
  const absl::StatusOr<UpdateRuleSpec> spec = DescribeUpdateRule(rule);
  for (const SlotSpec& slot : spec->slots) {
    slots.emplace_back(elements, slot.initial_value);
  }
  return slots;
}

std::vector<SlotSpans> Spans(const std::vector<std::vector<float>>& in,
                             std::vector<std::vector<float>>& out) {
  std::vector<SlotSpans> spans;
  for (size_t i = 0; i < in.size(); ++i) spans.push_back({in[i], absl::MakeSpan(out[i])});
  return spans;
}
std::vector<SlotSpans> InPlace(std::vector<std::vector<float>>& slots) {
  return Spans(slots, slots);
}

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
  ASSERT_EQ(golden.cases.size(), 12u);
  for (const GoldenCase& each : golden.cases) {
    for (const bool in_place : {true, false}) {
      SCOPED_TRACE(each.label + (in_place ? " in place" : " into a fresh buffer"));
      const auto kernel = MakeUpdateKernel(each.rule);
      ASSERT_TRUE(kernel.ok()) << kernel.status();
      std::vector<std::vector<float>> slots = MakeSlots(each.rule, golden.start.size());
      std::vector<float> value = golden.start;
      std::vector<double> largest;
      for (const float start : value) largest.push_back(std::abs(start));
      size_t shown = 0;
      for (size_t step = 1; step <= golden.gradients.size(); ++step) {
        const float nan = std::numeric_limits<float>::quiet_NaN();
        std::vector<float> fresh(value.size(), nan);
        std::vector<std::vector<float>> fresh_slots(slots.size(), fresh);
        UpdateStep update;
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

TEST(UpdateKernelTest, AnySplitIntoSpansGivesTheSameBits) {
  const Golden golden = ReadGolden();
  const size_t elements = golden.start.size();
  for (const GoldenCase& each : golden.cases) {
    SCOPED_TRACE(each.label);
    const auto kernel = MakeUpdateKernel(each.rule);
    std::vector<float> whole = golden.start;
    std::vector<float> parts = golden.start;
    std::vector<std::vector<float>> whole_slots = MakeSlots(each.rule, elements);
    std::vector<std::vector<float>> part_slots = MakeSlots(each.rule, elements);
    for (uint64_t step = 1; step <= 5; ++step) {
      const std::vector<float>& gradient = golden.gradients[step - 1];
      (*kernel)->Apply({gradient, whole, absl::MakeSpan(whole), InPlace(whole_slots), 0.01, step});
      for (const auto& [begin, count] : {std::pair<size_t, size_t>{0, 1}, {1, 40}, {41, 26}}) {
        std::vector<SlotSpans> slots = InPlace(part_slots);
        for (SlotSpans& slot : slots) {
          slot = {slot.in.subspan(begin, count), slot.out.subspan(begin, count)};
        }
        const auto value = absl::MakeSpan(parts).subspan(begin, count);
        (*kernel)->Apply(
            {absl::MakeConstSpan(gradient).subspan(begin, count), value, value, slots, 0.01, step});
      }
    }
    EXPECT_EQ(whole, parts);
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
    std::vector<std::vector<float>> expected_slots = MakeSlots(each.rule, expected.size());
    std::vector<float> value = expected;
    std::vector<std::vector<float>> slots = expected_slots;
    for (uint64_t step = 1; step <= 16; ++step) {
      const std::vector<float>& gradient = golden.gradients[step - 1];
      (*kernel)->Apply(
          {gradient, expected, absl::MakeSpan(expected), InPlace(expected_slots), 0.01, step});
      std::vector<float> fresh(value.size(), nan);
      std::vector<std::vector<float>> fresh_slots(slots.size(), fresh);
      const auto is_fresh = [&](size_t buffer) { return ((step >> buffer) & 1) != 0; };
      std::vector<SlotSpans> spans = InPlace(slots);
      for (size_t i = 0; i < slots.size(); ++i) {
        if (is_fresh(i + 1)) spans[i].out = absl::MakeSpan(fresh_slots[i]);
      }
      (*kernel)->Apply(
          {gradient, value, absl::MakeSpan(is_fresh(0) ? fresh : value), spans, 0.01, step});
      if (is_fresh(0)) value = fresh;
      for (size_t i = 0; i < slots.size(); ++i) {
        if (is_fresh(i + 1)) slots[i] = fresh_slots[i];
      }
    }
    EXPECT_EQ(value, expected);
    EXPECT_EQ(slots, expected_slots);
  }
}

TEST(UpdateKernelTest, AssignAddAdds) {
  proto::UpdateRule rule;
  rule.set_op("assign_add");
  std::vector<float> value = {1, 2, 3};
  const std::vector<float> delta = {0.5f, -2, 1e6f};
  (*MakeUpdateKernel(rule))->Apply({delta, value, absl::MakeSpan(value), {}, 0.1, 1});
  EXPECT_THAT(value, testing::ElementsAre(1.5f, 0, 1000003));

  std::vector<int64_t> counter = {std::numeric_limits<int64_t>::max(), 41};
  AssignAddInt64({1, 1}, counter, absl::MakeSpan(counter));
  EXPECT_THAT(counter, testing::ElementsAre(std::numeric_limits<int64_t>::min(), 42));
}

TEST(UpdateKernelTest, EmptySlicesAreFine) {
  for (const char* op : {"sgd", "adagrad", "rmsprop", "adam", "assign_add"}) {
    proto::UpdateRule rule;
    rule.set_op(op);
    std::vector<std::vector<float>> slots = MakeSlots(rule, 0);
    (*MakeUpdateKernel(rule))->Apply({{}, {}, {}, InPlace(slots), 0.1, 1});
  }
}

TEST(UpdateKernelTest, UnknownOpOrParameterIsNamed) {
  proto::UpdateRule rule;
  rule.set_op("adamax");
  EXPECT_THAT(std::string(MakeUpdateKernel(rule).status().message()), testing::HasSubstr("adamax"));
  rule.set_op("sgd");
  rule.add_parameters()->set_name("beta_1");
  EXPECT_THAT(std::string(MakeUpdateKernel(rule).status().message()), testing::HasSubstr("beta_1"));
}

}  // namespace
}  // namespace cohort
