// Constraints of values after an update; tests/models compares the formulas with Keras.

#include "common/runtime/update/constrain.h"

#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "common/program/update_rule.h"
#include "common/runtime/update/make_update_kernel.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace cohort {
namespace {

using ::testing::ElementsAre;
using ::testing::FloatNear;

proto::UpdateRule Sgd(const std::vector<std::pair<std::string, double>>& parameters) {
  proto::UpdateRule rule;
  rule.set_op("sgd");
  for (const auto& [name, value] : parameters) {
    proto::HyperParameter& parameter = *rule.add_parameters();
    parameter.set_name(name);
    parameter.set_value(value);
  }
  return rule;
}

TEST(Constrain, NormsAreOfElementsThatLieApart) {
  // Two columns, of lengths 5 and 1, and the longer one is cut to 2.
  std::vector<float> columns = {3, 0, 4, 1};
  Constrain({.kind = ConstraintKind::kMaxNorm, .count = 2, .stride = 2, .max = 2},
            absl::MakeSpan(columns));
  EXPECT_THAT(columns,
              ElementsAre(FloatNear(1.2f, 1e-6f), 0, FloatNear(1.6f, 1e-6f), FloatNear(1, 1e-6f)));
  std::vector<float> rows = {3, 4, 0, 0};
  Constrain({.kind = ConstraintKind::kUnitNorm, .count = 2, .stride = 1}, absl::MakeSpan(rows));
  EXPECT_THAT(rows, ElementsAre(FloatNear(0.6f, 1e-6f), FloatNear(0.8f, 1e-6f), 0, 0));
  Constrain({.kind = ConstraintKind::kUnitNorm, .count = 8, .stride = 8}, {});
}

TEST(Constrain, NonNegKeepsNanAsKerasDoes) {
  std::vector<float> value = {-1, 2, std::nanf("")};
  Constrain({.kind = ConstraintKind::kNonNeg}, absl::MakeSpan(value));
  EXPECT_EQ(value[0], 0);
  EXPECT_EQ(value[1], 2);
  EXPECT_TRUE(std::isnan(value[2]));
}

TEST(Constrain, ComesAfterTheAverage) {
  const proto::UpdateRule rule = Sgd({{"constraint", 2}, {"use_ema", 1}, {"ema_momentum", 0.5}});
  const auto kernel = MakeUpdateKernel(rule);
  ASSERT_TRUE(kernel.ok()) << kernel.status();
  std::vector<float> value = {1, 1};
  std::vector<float> average = value;
  const std::vector<float> gradient = {3, -1};
  UpdateStep step;
  step.gradient = gradient;
  step.value_in = step.value_out = absl::MakeSpan(value);
  step.slots = {{average, absl::MakeSpan(average)}};
  step.learning_rate = 1;
  (*kernel)->Apply(step);
  EXPECT_THAT(value, ElementsAre(0, 2));
  EXPECT_THAT(average, ElementsAre(-2, 2));
}

TEST(Constrain, RowsOfASparsePushAreConstrained) {
  const auto kernel = MakeUpdateKernel(Sgd({{"constraint", 1},
                                            {"constraint_max", 1},
                                            {"constraint_count", 2},
                                            {"constraint_stride", 1}}));
  ASSERT_TRUE(kernel.ok()) << kernel.status();
  std::vector<float> row = {0, 0};
  const std::vector<float> gradient = {-3, -4};
  const RowUpdate update{gradient.data(), row.data(), {}};
  UpdateStep step;
  step.learning_rate = 1;
  step.row_width = 2;
  (*kernel)->ApplyRows({&update, 1}, step);
  EXPECT_THAT(row, ElementsAre(FloatNear(0.6f, 1e-6f), FloatNear(0.8f, 1e-6f)));
}

}  // namespace
}  // namespace cohort
