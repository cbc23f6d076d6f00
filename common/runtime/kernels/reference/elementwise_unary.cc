// The kernels of ONNX's functions of one tensor that are not in elementwise.cc, and of UnaryGrad,
// which computes the gradients of the functions in unary_functions.h.

#include <cmath>
#include <type_traits>

#include "common/runtime/kernels/kernel_support.h"
#include "common/runtime/kernels/reference/reference_kernels.h"
#include "common/runtime/kernels/unary_functions.h"

namespace cohort {

namespace {

template <typename Function>
absl::Status RunValue(KernelContext& context, const UnaryParameters& parameters) {
  const Tensor& x = context.input(0);
  return DispatchFloats(x, [&](auto tag) {
    using T = typename decltype(tag)::Type;
    T* y = context.Output(0, x.dtype(), x.shape()).template mutable_data<T>();
    for (const T value : x.span<T>()) *y++ = static_cast<T>(Function::Value(parameters, value));
    return absl::OkStatus();
  });
}

template <typename Function>
absl::Status RunSlope(KernelContext& context, const UnaryParameters& parameters) {
  const Tensor& dy = context.input(0);
  const Tensor& x = context.input(1);
  RETURN_IF_ERROR(RequireSameType(dy, x));
  RETURN_IF_ERROR(RequireSameShape(dy, x));
  return DispatchFloats(x, [&](auto tag) {
    using T = typename decltype(tag)::Type;
    T* dx = context.Output(0, x.dtype(), x.shape()).template mutable_data<T>();
    for (int64_t i = 0; i < x.num_elements(); ++i) {
      dx[i] = static_cast<T>(static_cast<double>(dy.data<T>()[i]) *
                             Function::Slope(parameters, x.data<T>()[i]));
    }
    return absl::OkStatus();
  });
}

using RunUnary = absl::Status (*)(KernelContext&, const UnaryParameters&);

// The functions that compute the value and the slope of the function `name`, as UnaryGrad's
// attribute `function` spells the name.
struct NamedFunction {
  const char* name;
  RunUnary value;  // null for a function that also takes integers and has a kernel of its own
  RunUnary slope;
};

template <typename Function>
constexpr NamedFunction Named(const char* name) {
  return {name, RunValue<Function>, RunSlope<Function>};
}

constexpr NamedFunction kFunctions[] = {{"Abs", nullptr, RunSlope<AbsFunction>},
                                        Named<ReciprocalFunction>("Reciprocal"),
                                        Named<ErfFunction>("Erf"),
                                        Named<SoftplusFunction>("Softplus"),
                                        Named<SoftsignFunction>("Softsign"),
                                        Named<EluFunction>("Elu"),
                                        Named<SeluFunction>("Selu"),
                                        Named<CeluFunction>("Celu"),
                                        Named<LeakyReluFunction>("LeakyRelu"),
                                        Named<ThresholdedReluFunction>("ThresholdedRelu"),
                                        Named<HardSigmoidFunction>("HardSigmoid"),
                                        Named<HardSwishFunction>("HardSwish"),
                                        Named<SinFunction>("Sin"),
                                        Named<CosFunction>("Cos"),
                                        Named<GeluFunction>("Gelu"),
                                        Named<GeluTanhFunction>("GeluTanh"),
                                        Named<Log1pFunction>("Log1p")};

// Returns the entry of kFunctions with the name `name`, or null if there is none.
const NamedFunction* FindFunction(const std::string& name) {
  for (const NamedFunction& function : kFunctions) {
    if (name == function.name) return &function;
  }
  return nullptr;
}

// The function that a node runs, and the attributes that are passed to the function.
struct UnaryCall {
  RunUnary run = nullptr;
  UnaryParameters parameters;
};

UnaryCall ParseUnary(AttributeReader& reader) {
  std::string name = reader.node().op_type();
  if (name == "Gelu") {
    const std::string approximate = reader.String("approximate", "none");
    if (approximate == "tanh") name = "GeluTanh";
    if (approximate != "tanh" && approximate != "none") {
      reader.Fail("unknown attribute 'approximate'; use none or tanh");
    }
  }
  return {FindFunction(name)->value, ParseUnaryParameters(name, reader)};
}

UnaryCall ParseUnaryGrad(AttributeReader& reader) {
  const std::string name = reader.String("function", "");
  const NamedFunction* const function = FindFunction(name);
  if (function == nullptr) {
    reader.Fail("attribute 'function' does not name a function that has a gradient");
    return {};
  }
  return {function->slope, ParseUnaryParameters(name, reader)};
}

absl::Status RunCall(KernelContext& context, const UnaryCall& call) {
  return call.run(context, call.parameters);
}

struct AbsValue {
  template <typename T>
  static T Of(T x) {
    if constexpr (std::is_floating_point_v<T>) return std::abs(x);
    // The lowest number of an integer type wraps around to itself.
    if constexpr (!std::is_floating_point_v<T>) {
      return x < T{0} ? static_cast<T>(uint64_t{0} - static_cast<uint64_t>(x)) : x;
    }
  }
};

struct SignValue {
  template <typename T>
  static T Of(T x) {
    // A NaN fails both comparisons, so it stays NaN.
    return x > T{0} ? T{1} : x < T{0} ? static_cast<T>(-1) : x;
  }
};

struct FloorValue {
  template <typename T>
  static T Of(T x) {
    return std::floor(x);
  }
};

struct CeilValue {
  template <typename T>
  static T Of(T x) {
    return std::ceil(x);
  }
};

struct RoundValue {
  // Rounds halves to the even neighbour, which is the default rounding mode of C++.
  template <typename T>
  static T Of(T x) {
    return std::nearbyint(x);
  }
};

template <typename Value, typename Types>
absl::Status RunExact(KernelContext& context) {
  const Tensor& x = context.input(0);
  return DispatchTypes(Types{}, x, [&](auto tag) {
    using T = typename decltype(tag)::Type;
    T* y = context.Output(0, x.dtype(), x.shape()).template mutable_data<T>();
    for (const T value : x.span<T>()) *y++ = Value::Of(value);
    return absl::OkStatus();
  });
}

absl::Status RunNot(KernelContext& context) {
  const Tensor& x = context.input(0);
  RETURN_IF_ERROR(RequireType(x, DType::kBool));
  bool* y = context.Output(0, DType::kBool, x.shape()).mutable_data<bool>();
  for (const bool value : x.span<bool>()) *y++ = !value;
  return absl::OkStatus();
}

absl::Status RunIsNaN(KernelContext& context) {
  const Tensor& x = context.input(0);
  return DispatchFloats(x, [&](auto tag) {
    using T = typename decltype(tag)::Type;
    bool* y = context.Output(0, DType::kBool, x.shape()).template mutable_data<bool>();
    for (const T value : x.span<T>()) *y++ = std::isnan(value);
    return absl::OkStatus();
  });
}

}  // namespace

void RegisterReferenceElementwiseUnary(KernelRegistry& registry) {
  for (const NamedFunction& function : kFunctions) {
    const std::string name = function.name;
    // GeluTanh is not an operator, but Gelu with the attribute approximate = "tanh".
    if (function.value == nullptr || name == "GeluTanh") continue;
    const char* const domain = name == "Gelu" || name == "Log1p" ? "cohort" : "";
    registry.Add(domain, name, BoundKernel<UnaryCall>({1, 1, {kFloats}}, ParseUnary, RunCall));
  }
  registry.Add("cohort", "UnaryGrad",
               BoundKernel<UnaryCall>({2, 2, {kFloats}}, ParseUnaryGrad, RunCall));
  registry.Add("", "Abs", PlainKernel({1, 1, {kNumbers}}, RunExact<AbsValue, NumberTypes>));
  registry.Add("", "Sign", PlainKernel({1, 1, {kNumbers}}, RunExact<SignValue, NumberTypes>));
  registry.Add("", "Floor", PlainKernel({1, 1, {kFloats}}, RunExact<FloorValue, FloatTypes>));
  registry.Add("", "Ceil", PlainKernel({1, 1, {kFloats}}, RunExact<CeilValue, FloatTypes>));
  registry.Add("", "Round", PlainKernel({1, 1, {kFloats}}, RunExact<RoundValue, FloatTypes>));
  registry.Add("", "Not", PlainKernel({1, 1, {kBools}}, RunNot));
  registry.Add("", "IsNaN", PlainKernel({1, 1, {kFloats}}, RunIsNaN));
}

}  // namespace cohort
