#include "common/runtime/update/whole_kernels.h"

#include <cmath>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "common/program/update_rule.h"
#include "common/runtime/update/make_update_kernel.h"
#include "common/runtime/update/matrix_loops.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace cohort {
namespace {

using ::testing::ElementsAre;
using ::testing::FloatNear;
using ::testing::Pointwise;

// A variable with its slots, updated in place. Thread-compatible.
class Updated {
 public:
  Updated(const std::string& op, const std::vector<std::pair<std::string, double>>& parameters,
          Shape shape, std::vector<float> value)
      : shape_(std::move(shape)), value_(std::move(value)) {
    rule_.set_op(op);
    for (const auto& [name, number] : parameters) {
      proto::HyperParameter* parameter = rule_.add_parameters();
      parameter->set_name(name);
      parameter->set_value(number);
    }
    kernel_ = *MakeUpdateKernel(rule_);
    const UpdateRuleSpec spec = *DescribeUpdateRule(rule_);
    for (const SlotSpec& slot : spec.slots) {
      const auto count = static_cast<size_t>(ShapeOfSlot(slot, shape_).num_elements());
      slots_.push_back(slot.starts_as_value ? value_
                                            : std::vector<float>(count, slot.initial_value));
    }
  }

  const std::vector<float>& Apply(const std::vector<float>& gradient, double learning_rate) {
    UpdateStep step;
    step.gradient = gradient;
    step.value_in = value_;
    step.value_out = absl::MakeSpan(value_);
    for (std::vector<float>& slot : slots_) step.slots.push_back({slot, absl::MakeSpan(slot)});
    step.learning_rate = learning_rate;
    step.step = ++steps_;
    step.matrix = MatrixOf(shape_);
    kernel_->Apply(step);
    return value_;
  }

  const std::vector<float>& slot(size_t i) const { return slots_[i]; }

 private:
  Shape shape_;
  std::vector<float> value_;
  proto::UpdateRule rule_;
  std::unique_ptr<UpdateKernel> kernel_;
  std::vector<std::vector<float>> slots_;
  uint64_t steps_ = 0;
};

TEST(MatrixLoops, MultiplyMatricesOfAnySize) {
  for (const MatrixSize size : {MatrixSize{1, 1}, {3, 5}, {4, 40}, {17, 33}}) {
    const auto [rows, columns] = size;
    std::vector<float> x;
    for (size_t i = 0; i < rows * columns; ++i) x.push_back(std::sin(static_cast<float>(i)));
    std::vector<float> y(rows * rows);
    TimesTransposed(x.data(), size, y.data());
    std::vector<float> out(x.size(), 1);
    AddProduct(y.data(), x.data(), size, out.data());
    for (size_t i = 0; i < rows; ++i) {
      for (size_t j = 0; j < rows; ++j) {
        double sum = 0;
        for (size_t k = 0; k < columns; ++k) {
          sum += static_cast<double>(x[i * columns + k]) * static_cast<double>(x[j * columns + k]);
        }
        EXPECT_NEAR(y[i * rows + j], sum, 1e-5) << i << " " << j;
      }
      for (size_t j = 0; j < columns; ++j) {
        double sum = 1;
        for (size_t k = 0; k < rows; ++k) {
          sum += static_cast<double>(y[i * rows + k]) * static_cast<double>(x[k * columns + j]);
        }
        EXPECT_NEAR(out[i * columns + j], sum, 1e-4) << i << " " << j;
      }
    }
  }
}

TEST(WholeKernels, LambScalesAnUpdateToTheNormOfTheVariable) {
  Updated lamb("lamb", {{"epsilon", 0}}, Shape{2}, {3, 4});
  // The first step of Adam is the sign; |v| = 5 and |d| = sqrt(2).
  const float move = 0.1f * 5 / std::sqrt(2.0f);
  EXPECT_THAT(lamb.Apply({1, -2}, 0.1),
              Pointwise(FloatNear(1e-5f), std::vector<float>{3 - move, 4 + move}));
  Updated zero("lamb", {{"epsilon", 0}}, Shape{2}, {0, 0});
  // The correction of the square takes beta_2 in float32, as in Keras.
  const float sign = std::sqrt((1 - 0.999f) / 0.001f);
  EXPECT_THAT(zero.Apply({1, -2}, 0.25),
              Pointwise(FloatNear(1e-6f), std::vector<float>{-0.25f * sign, 0.25f * sign}));
}

TEST(WholeKernels, AdafactorKeepsMeansOfRowsAndColumns) {
  Updated adafactor("adafactor", {}, Shape{2, 2}, {1, 1, 1, 1});
  adafactor.Apply({1, 2, 3, 4}, 0.01);
  EXPECT_THAT(adafactor.slot(0), ElementsAre(2.5f, 12.5f));
  EXPECT_THAT(adafactor.slot(1), ElementsAre(5, 10));
}

TEST(WholeKernels, MuonOrthogonalizesTallAndWideMatricesAlike) {
  const std::vector<std::pair<std::string, double>> parameters = {{"weight_decay", 0.0}};
  Updated wide("muon", parameters, Shape{2, 3}, std::vector<float>(6));
  Updated tall("muon", parameters, Shape{3, 2}, std::vector<float>(6));
  const std::vector<float> of_wide = wide.Apply({1, 2, 3, -4, 5, 7}, 1);
  const std::vector<float> of_tall = tall.Apply({1, -4, 2, 5, 3, 7}, 1);
  for (size_t i = 0; i < 2; ++i) {
    for (size_t j = 0; j < 3; ++j) EXPECT_NEAR(of_wide[i * 3 + j], of_tall[j * 2 + i], 1e-6);
  }
  // All singular values are near 1 before the scaling by 0.2 sqrt(3), so rows have about that norm.
  const double scale = 0.2 * std::sqrt(3.0);
  for (size_t i = 0; i < 2; ++i) {
    const double norm = std::hypot(of_wide[i * 3], of_wide[i * 3 + 1], of_wide[i * 3 + 2]);
    EXPECT_GT(norm, 0.6 * scale);
    EXPECT_LT(norm, 1.3 * scale);
  }
}

TEST(WholeKernels, LionMovesBySigns) {
  Updated lion("lion", {{"beta_1", 0.5}, {"beta_2", 0.75}}, Shape{3}, {1, 1, 1});
  EXPECT_THAT(lion.Apply({4, -4, 0}, 0.25), ElementsAre(0.75f, 1.25f, 1));
  EXPECT_THAT(lion.slot(0), ElementsAre(1, -1, 0));
  // The momentum of before decides with the gradient.
  EXPECT_THAT(lion.Apply({-0.5, 0.5, -1}, 0.25), ElementsAre(0.5f, 1.5f, 1.25f));
}

TEST(Accumulation, UpdatesByTheMeanOfGradients) {
  Updated sgd("sgd", {{"gradient_accumulation_steps", 2}}, Shape{2}, {1, 2});
  EXPECT_THAT(sgd.Apply({2, 4}, 0.5), ElementsAre(1, 2));
  EXPECT_THAT(sgd.slot(0), ElementsAre(2, 4));
  EXPECT_THAT(sgd.Apply({6, 0}, 0.5), ElementsAre(-1, 1));
  EXPECT_THAT(sgd.slot(0), ElementsAre(0, 0));
  EXPECT_THAT(sgd.Apply({1, 1}, 0.5), ElementsAre(-1, 1));
}

TEST(MovingAverage, BeginsAtTheStartOrAtTheFirstValue) {
  const std::vector<std::pair<std::string, double>> parameters = {{"use_ema", 1},
                                                                  {"ema_momentum", 0.5}};
  Updated keras_3("sgd", parameters, Shape{1}, {4});
  keras_3.Apply({2}, 1);
  EXPECT_THAT(keras_3.slot(0), ElementsAre(2));
  std::vector<std::pair<std::string, double>> from_start = parameters;
  from_start.emplace_back("ema_from_start", 1);
  Updated keras_2("sgd", from_start, Shape{1}, {4});
  keras_2.Apply({2}, 1);
  EXPECT_THAT(keras_2.slot(0), ElementsAre(3));
}

// The product of the momenta ends as 0, and the table of it with it.
TEST(Nadam, TakesTheSlowScheduleOfItsOlderClass) {
  Updated nadam("nadam", {{"schedule_decay", 0.004}, {"epsilon", 0}}, Shape{1}, {1});
  const double now = 0.9 * (1 - 0.5 * std::pow(0.96, 0.004));
  const double next = 0.9 * (1 - 0.5 * std::pow(0.96, 0.008));
  // m = 0.1 g and sqrt(v / (1 - beta_2)) = |g| at step 1.
  const double moved = next * 0.1 / (1 - now * next) + (1 - now) / (1 - now);
  EXPECT_NEAR(nadam.Apply({3}, 0.01)[0], 1 - 0.01 * moved, 1e-6);
  for (int step = 0; step < 3000; ++step) nadam.Apply({3}, 1e-6);
  EXPECT_TRUE(std::isfinite(nadam.Apply({3}, 1e-6)[0]));
}

}  // namespace
}  // namespace cohort
