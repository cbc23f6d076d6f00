#include "tests/device/op_parity_cases.h"

namespace cohort {

std::vector<OpCase> LossOpCases() {
  std::vector<OpCase> cases;
  for (const auto& [shape, axis] : std::vector<std::pair<Shape, int64_t>>{{{9, 10}, -1},
                                                                          {{9, 37}, 1},
                                                                          {{3, 4, 5}, 1},
                                                                          {{3, 4, 5}, 0},
                                                                          {{1, 1}, -1},
                                                                          {{0, 3}, -1}}) {
    for (const char* op : {"Softmax", "LogSoftmax"}) {
      cases.push_back({kOnnx, op, {{shape}}, {IntAttribute("axis", axis)}});
      cases.push_back({kCohort,
                       std::string(op) + "Grad",
                       {{shape}, {shape, OpFill::kProbability}},
                       {IntAttribute("axis", axis)}});
    }
  }
  for (const int64_t rows : {0, 1, 13}) {
    for (const char* reduction : {"none", "sum", "mean"}) {
      if (rows == 0 && std::string(reduction) == "mean") continue;  // 0 / 0
      const Shape grad = std::string(reduction) == "none" ? Shape{rows} : Shape{};
      cases.push_back({kOnnx,
                       "SoftmaxCrossEntropyLoss",
                       {{{rows, 5}}, {{rows}, OpFill::kLabel}, {{5}, OpFill::kPositive}},
                       {StringAttribute("reduction", reduction)},
                       2});
      cases.push_back({kCohort,
                       "SoftmaxCrossEntropyGrad",
                       {{grad}, {{rows, 5}}, {{rows}, OpFill::kLabel}, {{5}, OpFill::kPositive}},
                       {StringAttribute("reduction", reduction), IntAttribute("ignore_index", 1)}});
    }
    for (const int64_t from_logits : {0, 1}) {
      const auto fill = from_logits ? OpFill::kNormal : OpFill::kProbability;
      const std::vector<onnx::AttributeProto> flag = {IntAttribute("from_logits", from_logits)};
      const OpInput prediction = {{rows, 10}, fill};
      const OpInput dense = {{rows, 10}, OpFill::kOneHot};
      const OpInput sparse = {{rows}, OpFill::kLabel};
      cases.push_back({kCohort, "CategoricalCrossentropy", {dense, prediction}, flag});
      cases.push_back({kCohort, "SparseCategoricalCrossentropy", {sparse, prediction}, flag});
      cases.push_back(
          {kCohort, "CategoricalCrossentropyGrad", {{{rows}}, dense, prediction}, flag});
      cases.push_back(
          {kCohort, "SparseCategoricalCrossentropyGrad", {{{rows}}, sparse, prediction}, flag});
    }
  }
  for (const auto& [labels, logits] : std::vector<std::pair<Shape, Shape>>{{{3, 2}, {3, 7, 10}},
                                                                           {{1, 0}, {1, 4, 10}},
                                                                           {{2, 3}, {2, 1, 10}},
                                                                           {{0, 2}, {0, 3, 10}}}) {
    const OpInput classes = {labels, OpFill::kLabel};
    cases.push_back({kCohort, "CtcLoss", {classes, {logits}}});
    cases.push_back({kCohort, "CtcLossGrad", {{{logits.dim(0)}}, classes, {logits}}});
  }
  return cases;
}

}  // namespace cohort
