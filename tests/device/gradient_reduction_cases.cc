#include "tests/device/gradient_cases.h"

// Reductions other than sum and mean, cumulative sums and sorting.

namespace cohort {
namespace {

using Inputs = std::vector<std::string>;

// The first output of TopK (the values), or the values of a TopK whose indices are used, too.
BuildCase TopKOf(int64_t count, std::vector<onnx::AttributeProto> attributes) {
  return [=](GraphBuilder& builder, const Inputs& x, DType dtype) {
    const auto k = builder.Constant("k", Numbers({count}));
    const auto outputs = builder.OpN("TopK", {x[0], k}, 2, attributes);
    const auto indices =
        builder.Op("Cast", {outputs[1]}, {IntAttribute("to", static_cast<int64_t>(dtype))});
    return builder.Op("Add", {outputs[0], indices});
  };
}

std::string ValuesAlone(GraphBuilder& builder, const Inputs& x, DType) {
  const auto outputs = builder.OpN("TopK", {x[0], builder.Constant("k", Numbers({2}))}, 2);
  return outputs[0];
}

}  // namespace

std::vector<GradientCase> ReductionGradientCases() {
  std::vector<GradientCase> cases;
  for (const std::string op : {"ReduceMax", "ReduceMin", "ReduceProd", "ReduceL1", "ReduceL2",
                               "ReduceSumSquare", "ReduceLogSum", "ReduceLogSumExp"}) {
    const Fill fill = op == "ReduceLogSum" ? Fill::kPositive : Fill::kReal;
    const auto add = [&](const std::string& name, std::vector<int64_t> dims,
                         std::vector<onnx::AttributeProto> attributes) {
      cases.push_back({op + name, {{std::move(dims), fill}}, OneNode(op, std::move(attributes))});
    };
    const auto axes = [](std::vector<int64_t> values) { return IntsAttribute("axes", values); };
    const auto dropped = IntAttribute("keepdims", 0);
    add("", {-1, 3}, {});
    add("_dropped", {-1, 3}, {dropped});
    add("_axis", {-1, 3, 2}, {axes({1}), dropped});
    add("_axes_keep", {-1, 3, 2}, {axes({0, -1})});
    add("_first", {2, 3, 2}, {axes({0}), dropped});
    add("_of_one", {3, 1}, {axes({1})});
    add("_empty_batch", {0, 3}, {axes({1})});
    add("_of_none", {3, 0}, {axes({1})});
  }
  const auto flags = [](int64_t exclusive, int64_t reverse) {
    return std::vector<onnx::AttributeProto>{IntAttribute("exclusive", exclusive),
                                             IntAttribute("reverse", reverse)};
  };
  for (const int64_t exclusive : {0, 1}) {
    for (const int64_t reverse : {0, 1}) {
      cases.push_back(
          {"CumSum_" + std::to_string(exclusive) + std::to_string(reverse),
           {{{-1, 3, 2}}},
           NodeWith("CumSum", {Tensor::Scalar<int64_t>(1)}, flags(exclusive, reverse))});
    }
  }
  cases.push_back({"CumSum_empty", {{{0, 3}}}, NodeWith("CumSum", {Tensor::Scalar<int64_t>(-1)})});
  cases.push_back({"TopK", {{{-1, 5}}}, TopKOf(2, {})});
  cases.push_back({"TopK_smallest", {{{-1, 5}}}, TopKOf(3, {IntAttribute("largest", 0)})});
  cases.push_back({"TopK_axis", {{{4, 3}}}, TopKOf(2, {IntAttribute("axis", 0)})});
  cases.push_back({"TopK_all", {{{2, 3}}}, TopKOf(3, {})});
  cases.push_back({"TopK_none", {{{2, 3}}}, TopKOf(0, {})});
  cases.push_back({"TopK_empty", {{{0, 3}}}, TopKOf(2, {})});
  cases.push_back({"TopK_values", {{{-1, 4}}}, ValuesAlone});
  return cases;
}

}  // namespace cohort
