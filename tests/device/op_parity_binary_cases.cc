#include "tests/device/op_parity_cases.h"

namespace cohort {

std::vector<OpCase> BinaryOpCases() {
  std::vector<OpCase> cases;
  for (const auto& [a, b] : std::vector<std::pair<Shape, Shape>>{{{7, 33}, {7, 33}},
                                                                 {{7, 33}, {33}},
                                                                 {{7, 33}, {7, 1}},
                                                                 {{}, {5, 3}},
                                                                 {{4, 1, 5}, {3, 1}},
                                                                 {{0, 4}, {4}},
                                                                 {{1, 1}, {1}},
                                                                 {{2, 3, 4, 5}, {3, 1, 5}}}) {
    for (const char* op : {"Less", "LessOrEqual", "Greater", "GreaterOrEqual", "Max", "Min"}) {
      cases.push_back({kOnnx, op, {{a, OpFill::kSpecial}, {b, OpFill::kSpecial}}});
    }
    for (const char* op : {"And", "Or", "Xor"}) {
      cases.push_back({kOnnx, op, {{a, OpFill::kMask}, {b, OpFill::kMask}}});
    }
    for (const char* op : {"Sum", "Mean"}) cases.push_back({kOnnx, op, {{a}, {b}, {a}}});
    cases.push_back({kOnnx, "Pow", {{a, OpFill::kPositive}, {b}}});
    cases.push_back({kOnnx, "Mod", {{a}, {b, OpFill::kPositive}}, {IntAttribute("fmod", 1)}});
    cases.push_back({kOnnx, "Where", {{b, OpFill::kMask}, {a}, {b}}});
    cases.push_back({kOnnx, "Where", {{a, OpFill::kMask}, {{}}, {b}}});
  }
  for (const int64_t minimum : {0, 1}) {
    const auto flag = IntAttribute("minimum", minimum);
    cases.push_back({kCohort, "MaxGrad", {{{7, 33}}, {{7, 33}}, {{33}}, {{7, 1}}}, {flag}, 3});
    cases.push_back({kCohort, "MaxGrad", {{{0, 3}}, {{0, 3}}, {{3}}}, {flag}, 2});
  }
  for (const Shape& slope : {Shape{5, 67}, Shape{67}, Shape{5, 1}, Shape{}}) {
    cases.push_back({kOnnx, "PRelu", {{{5, 67}}, {slope}}});
  }
  const std::vector<Tensor> bounds = {Tensor::Scalar<float>(-0.5f), Tensor::Scalar<float>(0.75f)};
  for (const Shape& shape : {Shape{}, Shape{0, 3}, Shape{5, 67}}) {
    const OpInput x = {shape, OpFill::kSpecial};
    cases.push_back({kOnnx, "Clip", {x}, {}, 1, bounds});
    cases.push_back({kOnnx, "Clip", {x}, {}, 1, {bounds[0]}});
    cases.push_back({kCohort, "ClipGrad", {{shape}, x}, {}, 1, bounds});
  }
  return cases;
}

}  // namespace cohort
