#include "common/tensor/initializer.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>

namespace cohort {
namespace {

const char* const kRandomOps[] = {"random_uniform", "random_normal", "truncated_normal"};

InitializerSpec Spec(const std::string& op, double a, double b) { return {op, a, b, 11}; }

Tensor Whole(const InitializerSpec& spec, const Shape& shape) {
  const int64_t rows = shape.rank() == 0 ? 1 : shape.dim(0);
  return *InitialRows(spec, "dense/kernel", DType::kFloat32, shape, {0, rows});
}

TEST(Initializer, AnyShardingGivesTheSameValues) {
  const Shape shape{13, 7, 3};
  for (const char* op : kRandomOps) {
    const InitializerSpec spec = Spec(op, 0.5, 2.0);
    const Tensor whole = Whole(spec, shape);
    for (int64_t slices = 1; slices <= 13; ++slices) {
      for (const RowRange& rows : DivRows(13, slices)) {
        const Tensor part = *InitialRows(spec, "dense/kernel", DType::kFloat32, shape, rows);
        ASSERT_EQ(part.shape(), (Shape{rows.count, 7, 3}));
        const Tensor expected = whole.Rows(rows.begin, rows.count);
        ASSERT_EQ(std::memcmp(part.raw(), expected.raw(), part.num_bytes()), 0) << op << slices;
      }
    }
  }
}

TEST(Initializer, ForgetGatesBeginAtOneInEachSlice) {
  for (const char* op : {"constant", "random_normal"}) {
    const Tensor others = Whole(Spec(op, 0.5, 2.0), Shape{12});
    const InitializerSpec spec = Spec(std::string(kUnitForget) + op, 0.5, 2.0);
    for (const RowRange& rows : {RowRange{0, 12}, RowRange{4, 3}, RowRange{5, 6}, RowRange{7, 0}}) {
      const Tensor part = *InitialRows(spec, "dense/kernel", DType::kFloat32, Shape{12}, rows);
      for (int64_t i = 0; i < rows.count; ++i) {
        const int64_t place = rows.begin + i;
        const bool is_forget_gate = place >= 3 && place < 6;
        EXPECT_EQ(part.data<float>()[i], is_forget_gate ? 1 : others.data<float>()[place]) << place;
      }
    }
  }
  for (const char* op : {"orthogonal", "unit_forget:ones", "rows"}) {
    const InitializerSpec spec = Spec(std::string(kUnitForget) + op, 1, 4);
    EXPECT_FALSE(CheckInitializer(spec, DType::kFloat32).ok()) << op;
  }
}

TEST(Initializer, SeedAndNameChangeTheValues) {
  InitializerSpec spec = Spec("random_normal", 0, 1);
  const Tensor base = Whole(spec, Shape{8});
  const Tensor other_name = *InitialRows(spec, "b", DType::kFloat32, Shape{8}, {0, 8});
  spec.seed = 12;
  const Tensor other_seed = Whole(spec, Shape{8});
  EXPECT_NE(std::memcmp(base.raw(), other_name.raw(), base.num_bytes()), 0);
  EXPECT_NE(std::memcmp(base.raw(), other_seed.raw(), base.num_bytes()), 0);
}

struct Moments {
  double mean = 0;
  double deviation = 0;
  double low = std::numeric_limits<double>::infinity();
  double high = -std::numeric_limits<double>::infinity();
};

Moments MomentsOf(const Tensor& tensor) {
  Moments m;
  const double n = static_cast<double>(tensor.num_elements());
  for (const float x : tensor.span<float>()) {
    m.mean += x / n;
    m.low = std::min<double>(m.low, x);
    m.high = std::max<double>(m.high, x);
  }
  for (const float x : tensor.span<float>()) m.deviation += (x - m.mean) * (x - m.mean) / n;
  m.deviation = std::sqrt(m.deviation);
  return m;
}

// 200,000 draws: the mean of a unit normal is within 0.01 at 4.5 standard errors.
TEST(Initializer, MomentsAreThoseOfTheDistribution) {
  const Shape shape{400, 500};
  const Moments normal = MomentsOf(Whole(Spec("random_normal", 3, 2), shape));
  EXPECT_NEAR(normal.mean, 3, 0.02);
  EXPECT_NEAR(normal.deviation, 2, 0.02);
  EXPECT_GT(normal.high, 3 + 2 * 3.5);
  const Moments truncated = MomentsOf(Whole(Spec("truncated_normal", 3, 2), shape));
  EXPECT_NEAR(truncated.mean, 3, 0.02);
  EXPECT_NEAR(truncated.deviation, 2 * 0.87962566, 0.02);  // of a normal cut at 2 deviations
  EXPECT_GE(truncated.low, -1);
  EXPECT_LE(truncated.high, 7);
  EXPECT_GT(truncated.high, 6.9);
  const Moments uniform = MomentsOf(Whole(Spec("random_uniform", -1, 3), shape));
  EXPECT_NEAR(uniform.mean, 1, 0.02);
  EXPECT_NEAR(uniform.deviation, 4 / std::sqrt(12.0), 0.02);
  EXPECT_GE(uniform.low, -1);
  EXPECT_LT(uniform.high, 3);
}

TEST(Initializer, UniformNeverReachesItsHighEndAfterRounding) {
  const Moments m = MomentsOf(Whole(Spec("random_uniform", 1.0, 1.0000002), Shape{1000}));
  EXPECT_GE(m.low, 1.0f);
  EXPECT_LT(m.high, 1.0000002f);
}

TEST(Initializer, ConstantsOfEveryType) {
  EXPECT_EQ(Whole(Spec("ones", 0, 0), Shape{}).span<float>()[0], 1.0f);
  EXPECT_EQ(Whole(Spec("constant", 0.25, 0), Shape{2}).span<float>()[1], 0.25f);
  const Tensor counter =
      *InitialRows(Spec("constant", -7, 0), "count", DType::kInt64, Shape{}, {0, 1});
  EXPECT_EQ(counter.span<int64_t>()[0], -7);
  EXPECT_EQ(InitialRows(Spec("zeros", 0, 0), "b", DType::kBool, Shape{2}, {0, 2})->num_bytes(), 2u);
}

TEST(Initializer, RefusesWhatItCannotFill) {
  const double infinity = std::numeric_limits<double>::infinity();
  EXPECT_FALSE(CheckInitializer(Spec("glorot", 0, 1), DType::kFloat32).ok());
  EXPECT_FALSE(CheckInitializer(Spec("constant", infinity, 0), DType::kFloat32).ok());
  EXPECT_FALSE(CheckInitializer(Spec("constant", 1e300, 0), DType::kFloat32).ok());
  EXPECT_FALSE(CheckInitializer(Spec("constant", 0.5, 0), DType::kInt64).ok());
  EXPECT_FALSE(CheckInitializer(Spec("constant", 300, 0), DType::kUint8).ok());
  EXPECT_FALSE(CheckInitializer(Spec("constant", 1e19, 0), DType::kInt64).ok());
  EXPECT_FALSE(CheckInitializer(Spec("random_normal", 0, -1), DType::kFloat32).ok());
  EXPECT_FALSE(CheckInitializer(Spec("random_uniform", 1, 0), DType::kFloat32).ok());
  EXPECT_FALSE(CheckInitializer(Spec("random_uniform", 0, 1), DType::kInt32).ok());
  EXPECT_FALSE(CheckInitializer(Spec("zeros", 0, 0), DType::kUndefined).ok());
  EXPECT_FALSE(InitialRows(Spec("zeros", 0, 0), "v", DType::kFloat32, Shape{4}, {3, 2}).ok());
  EXPECT_FALSE(InitialRows(Spec("zeros", 0, 0), "v", DType::kFloat32, Shape{4},
                           {std::numeric_limits<int64_t>::max(), 1})
                   .ok());
}

}  // namespace
}  // namespace cohort
