#include "tests/device/gradient_cases.h"

// Arithmetic of several tensors that broadcast, and selection.

namespace cohort {
namespace {

using Inputs = std::vector<std::string>;

// A constant of the type of the real inputs.
std::string Real(GraphBuilder& builder, double value, DType dtype) {
  return builder.Constant("real", dtype == DType::kFloat64
                                      ? Tensor::Scalar<double>(value)
                                      : Tensor::Scalar<float>(static_cast<float>(value)));
}

// Pow with a constant exponent.
BuildCase PowBy(double exponent) {
  return [=](GraphBuilder& builder, const Inputs& x, DType dtype) {
    return builder.Op("Pow", {x[0], Real(builder, exponent, dtype)});
  };
}

BuildCase ClipTo(bool min, bool max) {
  return [=](GraphBuilder& builder, const Inputs& x, DType dtype) {
    std::vector<std::string> inputs = {x[0], min ? Real(builder, -0.5, dtype) : ""};
    if (max) inputs.push_back(Real(builder, 0.75, dtype));
    if (!min && !max) inputs.pop_back();
    return builder.Op("Clip", inputs);
  };
}

// Selects between the inputs 1 and 2 by the sign of input 0, which gets no gradient.
std::string WhereOf(GraphBuilder& builder, const Inputs& x, DType dtype) {
  const auto condition = builder.Op("Greater", {x[0], Real(builder, 0.5, dtype)});
  return builder.Op("Where", {condition, x[1], x[2]});
}

// The larger one of two tensors, by comparison; the tensors are also the condition.
std::string WhereLess(GraphBuilder& builder, const Inputs& x, DType) {
  return builder.Op("Where", {builder.Op("LessOrEqual", {x[0], x[1]}), x[1], x[0]});
}

}  // namespace

std::vector<GradientCase> BinaryGradientCases() {
  std::vector<GradientCase> cases;
  const auto fill = [](std::vector<int64_t> dims, Fill kind) {
    return GradientInput{std::move(dims), kind};
  };
  for (const std::string op : {"Pow", "Max", "Min", "Sum", "Mean", "Mod"}) {
    std::vector<onnx::AttributeProto> attributes;
    if (op == "Mod") attributes.push_back(IntAttribute("fmod", 1));
    const bool positive = op == "Pow" || op == "Mod";
    const Fill a = op == "Pow" ? Fill::kPositive : Fill::kReal;
    const Fill b = positive ? Fill::kPositive : Fill::kReal;
    const auto add = [&](const std::string& name, std::vector<int64_t> x, std::vector<int64_t> y) {
      cases.push_back({op + "_" + name,
                       {fill(std::move(x), a), fill(std::move(y), b)},
                       OneNode(op, attributes)});
    };
    add("same", {-1, 4}, {-1, 4});
    add("row", {-1, 4}, {4});
    add("column_first", {-1, 1}, {-1, 4});
    add("both_ways", {2, 1, 3}, {4, 1});
    add("scalar", {2, 3}, {});
    add("ones", {1, 1}, {1});
    add("empty", {0, 3}, {1, 3});
    add("batch_against_one", {-1, 3}, {1, 3});
  }
  for (const std::string op : {"Max", "Min", "Sum", "Mean"}) {
    cases.push_back({op + "_one", {{{-1, 3}}}, OneNode(op)});
    cases.push_back({op + "_three", {{{-1, 3}}, {{3}}, {{2, 1, 1}}}, OneNode(op)});
  }
  cases.push_back({"Pow_square", {{{-1, 3}}}, PowBy(2)});
  cases.push_back({"Pow_root", {fill({-1, 3}, Fill::kPositive)}, PowBy(0.5)});
  cases.push_back({"Pow_integer", {{{-1, 3}}}, NodeWith("Pow", {Numbers({3})})});
  cases.push_back({"PRelu", {{{-1, 3, 2}}, {{3, 1}}}, OneNode("PRelu")});
  cases.push_back({"PRelu_scalar", {{{-1, 3}}, {{}}}, OneNode("PRelu")});
  cases.push_back({"PRelu_same", {{{2, 3}}, {{2, 3}}}, OneNode("PRelu")});
  cases.push_back({"PRelu_empty", {{{0, 3}}, {{3}}}, OneNode("PRelu")});
  cases.push_back({"Clip", {{{-1, 4}}}, ClipTo(true, true)});
  cases.push_back({"Clip_min", {{{-1, 4}}}, ClipTo(true, false)});
  cases.push_back({"Clip_max", {{{-1, 4}}}, ClipTo(false, true)});
  cases.push_back({"Clip_none", {{{-1, 4}}}, ClipTo(false, false)});
  cases.push_back({"Clip_empty", {{{0, 4}}}, ClipTo(true, true)});
  cases.push_back({"Clip_by_inputs",
                   {{{-1, 4}}, fill({}, Fill::kReal), fill({}, Fill::kPositive)},
                   OneNode("Clip")});
  const auto data = [&](std::vector<int64_t> dims) { return fill(std::move(dims), Fill::kData); };
  cases.push_back({"Where", {data({-1, 4}), {{-1, 4}}, {{-1, 4}}}, WhereOf});
  cases.push_back({"Where_broadcast", {data({-1, 1}), {{4}}, {{1, 1}}}, WhereOf});
  cases.push_back({"Where_rank3", {data({3, 1}), {{2, 1, 4}}, {{}}}, WhereOf});
  cases.push_back({"Where_empty", {data({0, 4}), {{4}}, {{0, 1}}}, WhereOf});
  cases.push_back({"Where_less", {{{-1, 4}}, {{-1, 4}}}, WhereLess});
  return cases;
}

}  // namespace cohort
