// Every update rule on a device: against what Keras computed, and random steps of slices of many
// sizes against the formulas in double, with the errors that are allowed on the processor.

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/program/update_rule.h"
#include "common/runtime/update/gpu_memory.h"
#include "gtest/gtest.h"
#include "tests/device/slice_at_home.h"
#include "tests/support/cuda_devices.h"
#include "tests/support/sequence_rng.h"
#include "tests/support/test_seed.h"
#include "tests/unit/common/runtime/golden_updates.h"
#include "tests/unit/common/runtime/random_updates.h"

namespace cohort {
namespace {

class GpuUpdates : public OnCudaDevices {
 protected:
  void SetUp() override {
    OnCudaDevices::SetUp();
    if (IsSkipped()) return;
    const auto memory = OpenGpuMemory(*table(), 0);
    ASSERT_TRUE(memory.ok()) << memory.status();
    memory_ = *memory;
  }

  std::unique_ptr<UpdateKernel> KernelOf(const proto::UpdateRule& rule) {
    auto kernel = memory_->MakeKernel(rule);
    EXPECT_TRUE(kernel.ok()) << kernel.status();
    return *std::move(kernel);
  }
  SliceAtHome Slice(const std::vector<float>& value, const Slots& slots) {
    return SliceAtHome(*memory_, value, slots);
  }
  SliceAtHome LikeOf(const SliceAtHome& slice) {
    const float nan = std::numeric_limits<float>::quiet_NaN();
    Slots slots;
    for (const FloatsAtHome& slot : slice.slots) slots.emplace_back(slot.span().size(), nan);
    return Slice(std::vector<float>(slice.value.span().size(), nan), slots);
  }

  std::shared_ptr<VariableMemory> memory_;
};

std::vector<float> Random(size_t count, uint64_t seed) {
  const RandomStream random(seed, "values");
  std::vector<float> values(count);
  for (size_t i = 0; i < count; ++i) values[i] = static_cast<float>(random.Normal(i));
  return values;
}

// As on the processor (update_kernel_test.cc).
TEST_P(GpuUpdates, FollowKerasFor100Steps) {
  const Golden golden = ReadGolden();
  ASSERT_EQ(golden.cases.size(), 36u);
  for (const GoldenCase& each : golden.cases) {
    for (const bool in_place : {true, false}) {
      SCOPED_TRACE(each.label + (in_place ? " in place" : " into a fresh buffer"));
      const auto kernel = KernelOf(each.rule);
      SliceAtHome slice = Slice(golden.start, MakeSlots(each.rule, golden.start, golden.width));
      std::vector<double> largest(golden.start.size());
      for (size_t i = 0; i < largest.size(); ++i) largest[i] = std::abs(golden.start[i]);
      size_t shown = 0;
      for (size_t step = 1; step <= golden.gradients.size(); ++step) {
        const SliceAtHome next = in_place ? slice : LikeOf(slice);
        UpdateStep update = slice.StepInto(next);
        update.gradient = golden.gradients[step - 1];
        update.row_width = golden.width;
        update.learning_rate = each.learning_rate;
        update.step = step;
        kernel->Apply(update);
        slice = next;
        if (each.values[shown].first != step) continue;
        const std::vector<double>& expected = each.values[shown++].second;
        for (size_t i = 0; i < expected.size(); ++i) {
          largest[i] = std::max(largest[i], std::abs(expected[i]));
          ASSERT_NEAR(slice.value.span()[i], expected[i], 1e-6 * largest[i]) << "element " << i;
        }
      }
      EXPECT_EQ(shown, each.values.size());
    }
  }
}

struct Extent {
  size_t rows;
  size_t width;
};

// One step of a slice from a random state.
class RandomStep {
 public:
  RandomStep(const RuleFormula& rule, const Extent& extent, uint64_t seed)
      : formula_(rule), width_(extent.width), elements_(extent.rows * extent.width) {
    SequenceRng rng(seed);
    step_.p = RandomParameters(rule.op, rng);
    step_.lr = std::pow(10, -3 + 3 * rng.Uniform());
    step_.t = static_cast<double>(1 + rng.Below(20));
    rule_ = RuleOf(rule.op, step_.p);
    spec_ = *DescribeUpdateRule(rule_);
    gradient_ = Random(elements_.size(), rng.Next());
    for (Element& e : elements_) RandomState(spec_, rng, e);
    for (size_t i = 0; i < elements_.size(); ++i) {
      Element& e = elements_[i];
      e.g = gradient_[i];
      value_.push_back(static_cast<float>(e.v));
      for (size_t k = 0; k < spec_.slots.size(); ++k) {
        if (spec_.slots[k].per_row) e.slots[k] = elements_[i / width_ * width_].slots[k];
      }
    }
  }

  const proto::UpdateRule& rule() const { return rule_; }
  const std::vector<float>& value() const { return value_; }
  const std::vector<float>& gradient() const { return gradient_; }
  Slots slots() const {
    Slots slots;
    for (size_t k = 0; k < spec_.slots.size(); ++k) {
      std::vector<float>& slot = slots.emplace_back();
      const size_t each = spec_.slots[k].per_row ? width_ : 1;
      for (size_t i = 0; i < elements_.size(); i += each) {
        slot.push_back(static_cast<float>(elements_[i].slots[k]));
      }
    }
    return slots;
  }
  void SetRates(UpdateStep& update) const {
    update.row_width = width_;
    update.learning_rate = step_.lr;
    update.step = static_cast<uint64_t>(step_.t);
  }

  // Ends the state.
  void Expect(const SliceAtHome& actual) {
    double largest = 0;
    for (size_t i = 0; i < elements_.size(); ++i) {
      if (i % width_ == 0) FindSquareOfRow(i);
      Element& e = elements_[i];
      e.row_square = row_square_;
      e.v -= e.v * step_.p.at("weight_decay") * step_.lr;
      formula_.formula(step_, e);
      const double error = std::abs(actual.value.span()[i] - e.v);
      largest = std::max(largest, std::isnan(error) ? HUGE_VAL : error / (kUnit * e.scale));
      for (size_t k = 0; k < spec_.slots.size(); ++k) {
        const SlotSpec& slot = spec_.slots[k];
        ASSERT_NEAR(actual.slots[k].span()[slot.per_row ? i / width_ : i], e.slots[k],
                    SlotTolerance(formula_, slot, step_, e, k))
            << slot.name << " " << i;
      }
    }
    EXPECT_LE(largest, formula_.units);
  }

 private:
  void FindSquareOfRow(size_t begin) {
    row_square_ = 0;
    for (size_t i = begin; i < begin + width_; ++i) row_square_ += elements_[i].g * elements_[i].g;
    row_square_ /= static_cast<double>(width_);
  }

  const RuleFormula& formula_;
  const size_t width_;
  Step step_;
  proto::UpdateRule rule_;
  UpdateRuleSpec spec_;
  std::vector<Element> elements_;
  std::vector<float> value_;
  std::vector<float> gradient_;
  double row_square_ = 0;
};

TEST_P(GpuUpdates, AreAsNearToTheFormulasAsOnTheProcessor) {
  const std::vector<RuleFormula> formulas = RuleFormulas();
  constexpr Extent kExtents[] = {{1, 1}, {7, 1}, {143, 7}, {3, 1000}, {100003, 1}};
  for (const RuleFormula& formula : formulas) {
    for (const Extent& extent : kExtents) {
      const int repeats = extent.rows < 1000 ? 16 : 2;
      uint64_t seed = TestSeed(1);
      for (int i = 0; i < repeats && !HasFailure(); ++i, ++seed) {
        SCOPED_TRACE(absl::StrCat(formula.op, " ", extent.rows, " x ", extent.width, ", ",
                                  Replay("device_test", seed, "*GpuUpdates.*")));
        RandomStep step(formula, extent, seed);
        const SliceAtHome slice = Slice(step.value(), step.slots());
        const SliceAtHome out = i % 2 == 0 ? slice : LikeOf(slice);
        UpdateStep update = slice.StepInto(out);
        step.SetRates(update);
        update.gradient = step.gradient();
        KernelOf(step.rule())->Apply(update);
        step.Expect(out);
      }
    }
  }
}

// The processor makes up for what the rows have missed, and the device goes on from there.
TEST_P(GpuUpdates, MakeUpForMissedSteps) {
  constexpr size_t kRows = 50;
  constexpr size_t kWidth = 7;
  for (const RuleFormula& formula : RuleFormulas()) {
    for (const bool in_place : {true, false}) {
      SCOPED_TRACE(absl::StrCat(formula.op, in_place ? " in place" : " fresh"));
      Parameters parameters = {{"weight_decay", 0.1}, {"use_ema", 1}, {"ema_momentum", 0.5}};
      if (std::string(formula.op) == "sgd") parameters["momentum"] = 0.9;
      proto::UpdateRule rule = RuleOf(formula.op, parameters);
      rule.set_sparse(proto::LAZY_COMPENSATED);
      const std::vector<float> start = Random(kRows * kWidth, 1);
      const std::vector<float> gradient = Random(kRows * kWidth, 2);
      Slots slots = MakeSlots(rule, start, kWidth);
      const UpdateRuleSpec spec = *DescribeUpdateRule(rule);
      for (size_t k = 0; k < spec.slots.size(); ++k) {
        if (spec.slots[k].name != kLastStepSlot) continue;
        for (size_t row = 0; row < kRows; ++row) {
          slots[k][row] = std::bit_cast<float>(static_cast<uint32_t>(9 - row / 3 % 4));
        }
      }
      std::vector<std::vector<float>> results[2];
      VariableMemory* const homes[] = {HostMemory().get(), memory_.get()};
      for (const size_t home : {0, 1}) {
        const SliceAtHome slice(*homes[home], start, slots);
        const SliceAtHome out = in_place ? slice : SliceAtHome(*homes[home], start, slots);
        UpdateStep update = slice.StepInto(out);
        update.gradient = gradient;
        update.row_width = kWidth;
        update.learning_rate = 0.01;
        update.step = 10;
        (*homes[home]->MakeKernel(rule))->Apply(update);
        results[home].push_back(out.value.values());
        for (const FloatsAtHome& slot : out.slots) results[home].push_back(slot.values());
      }
      for (size_t k = 0; k < results[0].size(); ++k) {
        for (size_t i = 0; i < results[0][k].size(); ++i) {
          const float expected = results[0][k][i];
          ASSERT_NEAR(results[1][k][i], expected, 2e-6 * std::max(1.0f, std::abs(expected)))
              << "of array " << k;
        }
      }
    }
  }
}

TEST_P(GpuUpdates, AddAndKeepAndTakeNothing) {
  SliceAtHome counter = Slice({1, 2, 3}, {});
  UpdateStep add = counter.StepInto(counter);
  const std::vector<float> delta = {0.5f, -2, 1e6f};
  add.gradient = delta;
  KernelOf(RuleOf("assign_add", {}))->Apply(add);
  EXPECT_EQ(counter.value.values(), (std::vector<float>{1.5f, 0, 1000003}));

  // A schedule may end at 0, where FTRL's formula would divide by it.
  const SliceAtHome slice = Slice({1, -2}, {{0.5f, 0.25f}, {7, 8}});
  const SliceAtHome kept = LikeOf(slice);
  UpdateStep still = slice.StepInto(kept);
  const std::vector<float> gradient = {3, 4};
  still.gradient = gradient;
  KernelOf(RuleOf("ftrl", {{"beta", 1}}))->Apply(still);
  EXPECT_EQ(kept.value.values(), slice.value.values());
  EXPECT_EQ(kept.slots[0].values(), slice.slots[0].values());
  EXPECT_EQ(kept.slots[1].values(), slice.slots[1].values());

  for (const GoldenCase& each : ReadGolden().cases) {
    const SliceAtHome empty = Slice({}, MakeSlots(each.rule, {}, 3));
    UpdateStep nothing = empty.StepInto(empty);
    nothing.row_width = 3;
    nothing.learning_rate = 0.1;
    KernelOf(each.rule)->Apply(nothing);
  }
}

// Of rows alone the processor takes care, in the same memory.
TEST_P(GpuUpdates, OfRowsGiveTheProcessorsBits) {
  const Golden golden = ReadGolden();
  for (const GoldenCase& each : golden.cases) {
    SCOPED_TRACE(each.label);
    const Slots slots = MakeSlots(each.rule, golden.start, golden.width);
    std::vector<float> results[2];
    VariableMemory* const homes[] = {HostMemory().get(), memory_.get()};
    for (const size_t home : {0, 1}) {
      const SliceAtHome slice(*homes[home], golden.start, slots);
      UpdateStep update = slice.StepInto(slice);
      update.row_width = golden.width;
      update.learning_rate = 0.01;
      update.step = 3;
      std::vector<RowUpdate> rows;
      for (const size_t row : {1, 4}) {
        RowUpdate& place = rows.emplace_back();
        place.gradient = golden.gradients[0].data() + row * golden.width;
        place.value = slice.value.span().data() + row * golden.width;
        for (size_t k = 0; k < slots.size(); ++k) {
          const size_t width = slots[k].size() * golden.width / golden.start.size();
          place.slots[k] = slice.slots[k].span().data() + row * width;
          update.slots[k] = {slice.slots[k].span().first(width),
                             slice.slots[k].span().first(width)};
        }
      }
      (*homes[home]->MakeKernel(each.rule))->ApplyRows(rows, update);
      results[home] = slice.value.values();
    }
    EXPECT_EQ(results[0], results[1]);
    EXPECT_NE(results[1], golden.start);
  }
}

COHORT_ON_CUDA_DEVICES(GpuUpdates);

}  // namespace
}  // namespace cohort
