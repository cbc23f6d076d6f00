#include "tests/device/op_parity_cases.h"

namespace cohort {
namespace {

void AddTopK(std::vector<OpCase>& cases) {
  for (const int64_t largest : {0, 1}) {
    cases.push_back({kOnnx,
                     "TopK",
                     {{{6, 35}, OpFill::kSpecial}},
                     {IntAttribute("largest", largest)},
                     2,
                     {Tensor::FromVector<int64_t>({7}, {1})}});
  }
}

}  // namespace

std::vector<OpCase> ReductionOpCases() {
  struct Axes {
    Shape shape;
    std::vector<int64_t> axes;
    Shape kept;
    Shape dropped;
  };
  std::vector<OpCase> cases;
  AddTopK(cases);
  for (const Axes& each : std::vector<Axes>{{{6, 35}, {0}, {1, 35}, {35}},
                                            {{6, 35}, {-1}, {6, 1}, {6}},
                                            {{6, 35}, {0, 1}, {1, 1}, {}},
                                            {{3, 4, 5}, {0, 2}, {1, 4, 1}, {4}},
                                            {{1, 1}, {0}, {1, 1}, {1}},
                                            {{0, 5}, {0}, {1, 5}, {5}}}) {
    for (const int64_t keep : {0, 1}) {
      const std::vector<onnx::AttributeProto> flags = {IntsAttribute("axes", each.axes),
                                                       IntAttribute("keepdims", keep)};
      for (const char* op : {"ReduceMax", "ReduceMin", "ReduceProd", "ReduceL1", "ReduceL2",
                             "ReduceSumSquare", "ReduceLogSumExp"}) {
        cases.push_back({kOnnx, op, {{each.shape}}, flags});
      }
      const OpInput positive = {each.shape, OpFill::kPositive};
      cases.push_back({kOnnx, "ReduceLogSum", {positive}, flags});
      const OpInput grad = {keep ? each.kept : each.dropped};
      // Elements and results of few values, so that some are equal.
      cases.push_back({kCohort,
                       "ReduceExtremumGrad",
                       {grad, {each.shape, OpFill::kOneHot}, {grad.shape, OpFill::kOneHot}},
                       flags});
      cases.push_back({kCohort, "ReduceProdGrad", {grad, {each.shape}}, flags});
      if (each.shape.dim(0) == 0) continue;  // no least element
      cases.push_back({kOnnx,
                       "ArgMin",
                       {{each.shape}},
                       {IntAttribute("axis", each.axes[0]), IntAttribute("keepdims", keep)}});
    }
    const auto axis = IntAttribute("axis", each.axes[0]);
    cases.push_back({kOnnx, "CumSum", {{each.shape}}, {}, 1, {Tensor::Scalar<int64_t>(-1)}});
    cases.push_back({kOnnx,
                     "CumSum",
                     {{each.shape}},
                     {IntAttribute("exclusive", 1), IntAttribute("reverse", 1)},
                     1,
                     {Tensor::Scalar<int32_t>(0)}});
    const int64_t count = each.shape.dim(0) == 0 ? 0 : 1;
    cases.push_back({kOnnx,
                     "TopK",
                     {{each.shape, OpFill::kSpecial}},
                     {axis},
                     2,
                     {Tensor::FromVector<int64_t>({count}, {1})}});
  }
  return cases;
}

}  // namespace cohort
