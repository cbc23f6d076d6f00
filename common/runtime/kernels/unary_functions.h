#pragma once

// Functions of one real number whose gradient is one operator, cohort.UnaryGrad: their values,
// their slopes and their attributes. The conventions where a slope has a jump are TensorFlow's: Abs
// and the rectifiers have the slope of their left side at 0, and a clipped function keeps its slope
// at both bounds.

#include <cmath>
#include <string>

#include "common/runtime/kernels/attribute_reader.h"

namespace cohort {

// The values of the attributes alpha, beta and gamma that functions have in ONNX. A function that
// lacks an attribute ignores it.
struct UnaryParameters {
  double alpha = 0;
  double beta = 0;
  double gamma = 0;
};

// Reads the attributes of the function `function`, with ONNX's defaults.
UnaryParameters ParseUnaryParameters(const std::string& function, AttributeReader& reader);

// Each struct below stands for one function of a number x; Value (if the struct has it) is the
// function's value, and Slope its derivative. T is the type of the tensor's elements, for bounds
// that are rounded to it.
struct AbsFunction {
  template <typename T>
  static double Slope(const UnaryParameters&, T x) {
    return x > 0 ? 1 : x < 0 ? -1 : static_cast<double>(x);
  }
};

struct ReciprocalFunction {
  template <typename T>
  static double Value(const UnaryParameters&, T x) {
    return 1 / static_cast<double>(x);
  }
  template <typename T>
  static double Slope(const UnaryParameters&, T x) {
    const double y = 1 / static_cast<double>(x);
    return -y * y;
  }
};

struct ErfFunction {
  template <typename T>
  static double Value(const UnaryParameters&, T x) {
    return std::erf(static_cast<double>(x));
  }
  template <typename T>
  static double Slope(const UnaryParameters&, T x) {
    constexpr double kTwoBySqrtPi = 1.12837916709551257390;
    const double wide = static_cast<double>(x);
    return kTwoBySqrtPi * std::exp(-wide * wide);
  }
};

struct SoftplusFunction {
  template <typename T>
  static double Value(const UnaryParameters&, T x) {
    // Only numbers that are not positive enter exp, so nothing overflows.
    const double wide = static_cast<double>(x);
    return wide > 0 ? wide + std::log1p(std::exp(-wide)) : std::log1p(std::exp(wide));
  }
  template <typename T>
  static double Slope(const UnaryParameters&, T x) {
    return 1 / (1 + std::exp(-static_cast<double>(x)));
  }
};

struct SoftsignFunction {
  template <typename T>
  static double Value(const UnaryParameters&, T x) {
    const double wide = static_cast<double>(x);
    return wide / (1 + std::abs(wide));
  }
  template <typename T>
  static double Slope(const UnaryParameters&, T x) {
    const double under = 1 + std::abs(static_cast<double>(x));
    return 1 / (under * under);
  }
};

// In all three exponential units a NaN takes the branch of the exponential, so it stays NaN.
struct EluFunction {
  template <typename T>
  static double Value(const UnaryParameters& p, T x) {
    const double wide = static_cast<double>(x);
    return wide > 0 ? wide : p.alpha * std::expm1(wide);
  }
  template <typename T>
  static double Slope(const UnaryParameters& p, T x) {
    return x > 0 ? 1 : p.alpha * std::exp(static_cast<double>(x));
  }
};

struct SeluFunction {
  template <typename T>
  static double Value(const UnaryParameters& p, T x) {
    const double wide = static_cast<double>(x);
    return p.gamma * (wide > 0 ? wide : p.alpha * std::expm1(wide));
  }
  // At 0 the slope of Selu is `gamma`, as in TensorFlow; PyTorch has gamma * alpha there.
  template <typename T>
  static double Slope(const UnaryParameters& p, T x) {
    return x >= 0 ? p.gamma : p.gamma * p.alpha * std::exp(static_cast<double>(x));
  }
};

struct CeluFunction {
  template <typename T>
  static double Value(const UnaryParameters& p, T x) {
    const double wide = static_cast<double>(x);
    return wide > 0 ? wide : p.alpha * std::expm1(wide / p.alpha);
  }
  template <typename T>
  static double Slope(const UnaryParameters& p, T x) {
    return x > 0 ? 1 : std::exp(static_cast<double>(x) / p.alpha);
  }
};

struct LeakyReluFunction {
  template <typename T>
  static double Value(const UnaryParameters& p, T x) {
    const double wide = static_cast<double>(x);
    return wide > 0 ? wide : p.alpha * wide;
  }
  template <typename T>
  static double Slope(const UnaryParameters& p, T x) {
    return x > 0 ? 1 : p.alpha;
  }
};

struct ThresholdedReluFunction {
  template <typename T>
  static double Value(const UnaryParameters& p, T x) {
    // A NaN fails the comparison with alpha, so it stays NaN.
    return static_cast<double>(x) <= p.alpha ? 0 : static_cast<double>(x);
  }
  template <typename T>
  static double Slope(const UnaryParameters& p, T x) {
    return static_cast<double>(x) > p.alpha ? 1 : 0;
  }
};

struct HardSigmoidFunction {
  template <typename T>
  static double Value(const UnaryParameters& p, T x) {
    const double line = p.alpha * static_cast<double>(x) + p.beta;
    return line < 0 ? 0 : line > 1 ? 1 : line;
  }
  // The arguments x at which HardSigmoid's line reaches 0 and 1 are rounded to T. So the bounds of
  // alpha = 0.2 are the floats -2.5 and 2.5, although 0.2 is not a float.
  template <typename T>
  static double Slope(const UnaryParameters& p, T x) {
    const T zero = static_cast<T>(-p.beta / p.alpha);
    const T one = static_cast<T>((1 - p.beta) / p.alpha);
    const bool inside = p.alpha > 0 ? x >= zero && x <= one : x >= one && x <= zero;
    return inside ? p.alpha : 0;
  }
};

struct HardSwishFunction {
  template <typename T>
  static double Value(const UnaryParameters&, T x) {
    const double wide = static_cast<double>(x);
    const double line = wide / 6 + 0.5;
    return wide * (line < 0 ? 0 : line > 1 ? 1 : line);
  }
  template <typename T>
  static double Slope(const UnaryParameters&, T x) {
    return x < -3 ? 0 : x > 3 ? 1 : static_cast<double>(x) / 3 + 0.5;
  }
};

// x times the normal distribution's probability of a number below x.
struct GeluFunction {
  template <typename T>
  static double Value(const UnaryParameters&, T x) {
    const double wide = static_cast<double>(x);
    return 0.5 * wide * std::erfc(-wide * kSqrtHalf);
  }
  template <typename T>
  static double Slope(const UnaryParameters&, T x) {
    constexpr double kBySqrtTwoPi = 0.39894228040143267794;
    const double wide = static_cast<double>(x);
    return 0.5 * std::erfc(-wide * kSqrtHalf) + wide * kBySqrtTwoPi * std::exp(-0.5 * wide * wide);
  }

  static constexpr double kSqrtHalf = 0.70710678118654752440;
};

// Hendrycks and Gimpel's approximation of Gelu, 0.5 x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))).
struct GeluTanhFunction {
  template <typename T>
  static double Value(const UnaryParameters&, T x) {
    const double wide = static_cast<double>(x);
    return 0.5 * wide * (1 + std::tanh(Inner(wide)));
  }
  template <typename T>
  static double Slope(const UnaryParameters&, T x) {
    const double wide = static_cast<double>(x);
    const double t = std::tanh(Inner(wide));
    const double inner = kSqrtTwoByPi * (1 + 3 * kCubic * wide * wide);
    return 0.5 * (1 + t) + 0.5 * wide * (1 - t * t) * inner;
  }

  static constexpr double kSqrtTwoByPi = 0.79788456080286535588;
  static constexpr double kCubic = 0.044715;
  static double Inner(double x) { return kSqrtTwoByPi * (x + kCubic * x * x * x); }
};

struct SinFunction {
  template <typename T>
  static double Value(const UnaryParameters&, T x) {
    return std::sin(static_cast<double>(x));
  }
  template <typename T>
  static double Slope(const UnaryParameters&, T x) {
    return std::cos(static_cast<double>(x));
  }
};

struct CosFunction {
  template <typename T>
  static double Value(const UnaryParameters&, T x) {
    return std::cos(static_cast<double>(x));
  }
  template <typename T>
  static double Slope(const UnaryParameters&, T x) {
    return -std::sin(static_cast<double>(x));
  }
};

struct Log1pFunction {
  template <typename T>
  static double Value(const UnaryParameters&, T x) {
    return std::log1p(static_cast<double>(x));
  }
  template <typename T>
  static double Slope(const UnaryParameters&, T x) {
    return 1 / (1 + static_cast<double>(x));
  }
};

}  // namespace cohort
