// A million random steps: every rule, with random hyper-parameters, from random values and slots,
// dense and of some rows in all sparse modes, against its formula in double. The errors allowed are
// those that updates.h and missed_loops.h document.

#include <algorithm>
#include <bit>
#include <cmath>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/rng.h"
#include "common/program/update_rule.h"
#include "common/runtime/update/update_kernel.h"
#include "gtest/gtest.h"
#include "tests/support/sequence_rng.h"
#include "tests/support/test_seed.h"
#include "tests/unit/common/runtime/random_updates.h"
#include "tests/unit/common/runtime/sparse_rows.h"
#include "tests/unit/common/runtime/update_formulas.h"

namespace cohort {
namespace {

constexpr double kUnitsOfMissed = 2;  // more, where rows have missed steps
constexpr size_t kRows = 4;
constexpr size_t kWidth = 3;  // 12 elements: a vector and a rest
constexpr uint64_t kMissedMax = 60;
constexpr int kStepsOfAll = 1'000'000;
constexpr int kStepsOfOneKernel = 10;

enum class Push { kDense, kDenseExact, kLazy, kLazyCompensated };
constexpr Push kPushes[] = {Push::kDense, Push::kDenseExact, Push::kLazy, Push::kLazyCompensated};

class RandomSteps {
 public:
  RandomSteps(const RuleFormula& rule, Push push, uint64_t seed)
      : rule_(rule), push_(push), rng_(seed) {
    step_.p = RandomParameters(rule.op, rng_);
    proto::UpdateRule proto = RuleOf(rule.op, step_.p);
    if (push == Push::kLazy) proto.set_sparse(proto::LAZY);
    if (push == Push::kLazyCompensated) proto.set_sparse(proto::LAZY_COMPENSATED);
    const std::vector<float> start(kRows * kWidth);
    table_ = std::make_unique<SparseRows>(proto, start, kWidth);
  }

  // One step from a random state. The largest error of a v in units of its scale.
  double ErrorOfStep() {
    step_.lr = std::pow(10, -3 + 3 * RandomStream(rng_.Next(), "rate").Uniform(0));
    step_.t = static_cast<double>(1 + rng_.Below(rng_.Below(10) == 0 ? kStepMax : 20));
    RandomRows();
    const SparseRows before = *table_;
    Apply();
    double largest = 0;
    for (size_t row = 0; row < kRows; ++row) {
      if (push_ >= Push::kLazy && !pushed_[row]) {
        ExpectUntouched(before, row);
      } else {
        Expect(row);
        for (size_t i = row * kWidth; i < (row + 1) * kWidth; ++i) {
          largest = std::max(largest, CheckElement(i));
        }
      }
    }
    return largest;
  }

 private:
  void RandomRows() {
    elements_.assign(kRows * kWidth, {});
    for (size_t i = 0; i < elements_.size(); ++i) {
      Element& e = elements_[i];
      RandomState(table_->spec(), rng_, e);
      e.g = 0;  // comes with the push
      table_->value[i] = static_cast<float>(e.v);
      for (size_t k = 0; k < e.slots.size(); ++k) {
        if (!PerRow(k)) {
          table_->slots[k][i] = static_cast<float>(e.slots[k]);
        } else if (i % kWidth == 0) {
          table_->slots[k][i / kWidth] = static_cast<float>(e.slots[k]);
        } else {
          e.slots[k] = elements_[i - 1].slots[k];
        }
      }
    }
    missed_.assign(kRows, 0);
    const int last = static_cast<int>(table_->spec().slots.size()) - 1;
    if (last < 0 || table_->spec().slots.back().name != kLastStepSlot) return;
    for (size_t row = 0; row < kRows; ++row) {
      const uint64_t most = std::min(static_cast<uint64_t>(step_.t) - 1, kMissedMax);
      missed_[row] = rng_.Below(most + 1);
      const auto seen = static_cast<uint32_t>(step_.t) - 1 - static_cast<uint32_t>(missed_[row]);
      table_->slots.back()[row] = std::bit_cast<float>(seen);
    }
  }

  bool PerRow(size_t slot) const { return table_->spec().slots[slot].per_row; }

  void Apply() {
    const RandomStream random(rng_.Next(), "gradient");
    std::vector<int64_t> rows;
    for (size_t i = rng_.Below(2 * kRows); i > 0; --i) {
      rows.push_back(static_cast<int64_t>(rng_.Below(kRows)));
    }
    if (push_ == Push::kDense) rows = {0, 1, 2, 3};
    std::vector<float> gradients(rows.size() * kWidth);
    std::vector<float> sums(kRows * kWidth);
    pushed_.assign(kRows, false);
    for (size_t i = 0; i < gradients.size(); ++i) {
      gradients[i] = static_cast<float>(random.Normal(i));
      const size_t row = static_cast<size_t>(rows[i / kWidth]);
      sums[row * kWidth + i % kWidth] += gradients[i];
      pushed_[row] = true;
    }
    for (size_t i = 0; i < sums.size(); ++i) elements_[i].g = sums[i];
    const auto t = static_cast<uint64_t>(step_.t);
    if (push_ == Push::kDense) {
      table_->PushDense(gradients, step_.lr, t);
    } else {
      table_->Push(rows, gradients, step_.lr, t);
    }
  }

  // What the formulas make of a row.
  void Expect(size_t row) {
    double squares = 0;
    for (size_t i = row * kWidth; i < (row + 1) * kWidth; ++i) {
      squares += elements_[i].g * elements_[i].g;
    }
    for (size_t i = row * kWidth; i < (row + 1) * kWidth; ++i) {
      Element& e = elements_[i];
      if (missed_[row] > 0) MissSteps(rule_, step_, static_cast<double>(missed_[row]), e);
      e.row_square = squares / kWidth;
      e.v -= e.v * step_.p.at("weight_decay") * step_.lr;
      rule_.formula(step_, e);
    }
  }

  double CheckElement(size_t i) const {
    const Element& e = elements_[i];
    for (size_t k = 0; k < e.slots.size(); ++k) {
      const SlotSpec& slot = table_->spec().slots[k];
      if (slot.name == kLastStepSlot) {
        EXPECT_EQ(std::bit_cast<uint32_t>(table_->slots[k][i / kWidth]), step_.t);
        continue;
      }
      EXPECT_NEAR(table_->slots[k][PerRow(k) ? i / kWidth : i], e.slots[k],
                  SlotTolerance(rule_, slot, step_, e, k))
          << rule_.op << " " << slot.name;
    }
    return std::abs(table_->value[i] - e.v) / (kUnit * e.scale);
  }

  void ExpectUntouched(const SparseRows& before, size_t row) const {
    for (size_t i = row * kWidth; i < (row + 1) * kWidth; ++i) {
      EXPECT_EQ(table_->value[i], before.value[i]);
      for (size_t k = 0; k < before.slots.size(); ++k) {
        const size_t at = PerRow(k) ? row : i;
        EXPECT_EQ(table_->slots[k][at], before.slots[k][at]);
      }
    }
  }

  const RuleFormula& rule_;
  const Push push_;
  SequenceRng rng_;
  Step step_;
  std::unique_ptr<SparseRows> table_;
  std::vector<Element> elements_;
  std::vector<uint64_t> missed_;
  std::vector<bool> pushed_;
};

TEST(UpdateStepsTest, AMillionRandomStepsAreAsNearToTheFormulasAsDocumented) {
  const std::vector<RuleFormula> rules = RuleFormulas();
  const int kernels = kStepsOfAll / kStepsOfOneKernel / static_cast<int>(rules.size()) / 4;
  for (const RuleFormula& rule : rules) {
    for (const Push push : kPushes) {
      double largest = 0;
      uint64_t seed = TestSeed(1);
      for (int i = 0; i < kernels && !testing::Test::HasFailure(); ++i, ++seed) {
        SCOPED_TRACE(Replay("runtime_test", seed, "UpdateStepsTest.*"));
        RandomSteps steps(rule, push, seed);
        for (int k = 0; k < kStepsOfOneKernel; ++k) {
          largest = std::max(largest, steps.ErrorOfStep());
        }
        const double units = rule.units + (push == Push::kLazyCompensated ? kUnitsOfMissed : 0);
        EXPECT_LE(largest, units) << rule.op << " " << static_cast<int>(push);
      }
      RecordProperty(absl::StrCat(rule.op, static_cast<int>(push)), absl::StrCat(largest));
    }
  }
}

}  // namespace
}  // namespace cohort
