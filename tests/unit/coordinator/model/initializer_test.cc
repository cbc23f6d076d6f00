#include "coordinator/layers/initializer.h"

#include <cmath>
#include <string>

#include "gtest/gtest.h"

namespace cohort {
namespace {

proto::Initializer Make(const std::string& class_name, const Shape& shape) {
  KerasInitializerSpec spec;
  spec.class_name = class_name;
  spec.a = 0.25;
  spec.b = 0.75;
  return MakeInitializer(spec, shape, 42);
}

// Limits and deviations from the definitions in keras/initializers/random_initializers.py for [30,
// 70].
TEST(Initializer, VarianceScalingFamilies) {
  const Shape shape{30, 70};
  constexpr double kCut = 0.87962566103423978;
  const auto expect_uniform = [&](const char* name, double limit) {
    const proto::Initializer made = Make(name, shape);
    EXPECT_EQ(made.op(), "random_uniform") << name;
    EXPECT_DOUBLE_EQ(made.a(), -limit) << name;
    EXPECT_DOUBLE_EQ(made.b(), limit) << name;
  };
  const auto expect_normal = [&](const char* name, double stddev) {
    const proto::Initializer made = Make(name, shape);
    EXPECT_EQ(made.op(), "truncated_normal") << name;
    EXPECT_EQ(made.a(), 0) << name;
    EXPECT_DOUBLE_EQ(made.b(), stddev) << name;
  };
  expect_uniform("GlorotUniform", std::sqrt(6.0 / 100));
  expect_uniform("HeUniform", std::sqrt(6.0 / 30));
  expect_uniform("LecunUniform", std::sqrt(3.0 / 30));
  expect_normal("GlorotNormal", std::sqrt(2.0 / 100) / kCut);
  expect_normal("HeNormal", std::sqrt(2.0 / 30) / kCut);
  expect_normal("LecunNormal", std::sqrt(1.0 / 30) / kCut);
}

TEST(Initializer, PlainFamiliesKeepTheirNumbers) {
  const Shape shape{4};
  EXPECT_EQ(Make("Zeros", shape).op(), "zeros");
  EXPECT_EQ(Make("Ones", shape).op(), "ones");
  EXPECT_EQ(Make("Constant", shape).op(), "constant");
  EXPECT_EQ(Make("Constant", shape).a(), 0.25);
  for (const auto& [name, op] :
       {std::pair{"RandomUniform", "random_uniform"}, std::pair{"RandomNormal", "random_normal"},
        std::pair{"TruncatedNormal", "truncated_normal"}}) {
    const proto::Initializer made = Make(name, shape);
    EXPECT_EQ(made.op(), op);
    EXPECT_EQ(made.a(), 0.25);
    EXPECT_EQ(made.b(), 0.75);
  }
}

TEST(Initializer, TheLayersSeedGoesBeforeTheJobs) {
  EXPECT_EQ(Make("Ones", {1}).seed(), 42u);
  KerasInitializerSpec spec;
  spec.seed = 7;
  EXPECT_EQ(MakeInitializer(spec, {1}, 42).seed(), 7u);
}

}  // namespace
}  // namespace cohort
