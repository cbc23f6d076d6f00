#pragma once

// What op_parity_test runs on both backends: one line per operator, attribute and shape.

#include <string>
#include <vector>

#include "common/program/cohort_ops.h"
#include "common/program/graph_builder.h"
#include "common/program/program.h"

namespace cohort {

enum class OpFill {
  kNormal,
  kPositive,
  kProbability,
  kLabel,
  kMask,
  kOneHot,
  kLow,      // so far below 0 that exp gives 0
  kSpecial,  // normal, with a NaN, an infinity and a 0 now and then
};

struct OpInput {
  Shape shape;
  OpFill fill = OpFill::kNormal;
  DType dtype = DType::kFloat32;

  // Returns an optional input that the node lacks.
  static OpInput Absent() { return {{}, OpFill::kNormal, DType::kUndefined}; }
};

struct OpCase {
  std::string domain;
  std::string op;
  std::vector<OpInput> inputs = {};
  std::vector<onnx::AttributeProto> attributes = {};
  int outputs = 1;
  std::vector<Tensor> constants = {};  // inputs after the random ones
  double slack = 1;                    // of the absolute tolerance, for sums of many terms
};

inline constexpr double kLongSums = 20;

inline constexpr const char* kOnnx = "";
inline constexpr const char* kCohort = kCohortDomain;

// Arithmetic, products, reductions and movement (op_parity_cases.cc), and all below.
std::vector<OpCase> AllOpCases();
// Where floats are special, and a device's kernels have branches of their own: for these alone.
std::vector<OpCase> DeviceOpCases();
// Softmax and losses (op_parity_loss_cases.cc).
std::vector<OpCase> LossOpCases();
// Convolution, pooling and normalization (op_parity_image_cases.cc).
std::vector<OpCase> ImageOpCases();
// Functions of one tensor (op_parity_function_cases.cc).
std::vector<OpCase> FunctionOpCases();
// Comparisons, logic and arithmetic of several tensors (op_parity_binary_cases.cc).
std::vector<OpCase> BinaryOpCases();
// Reductions other than sum and mean, cumulative sums and sorting (op_parity_reduction_cases.cc).
std::vector<OpCase> ReductionOpCases();
// Cutting, padding, repeating, gathering and scattering (op_parity_movement_cases.cc).
std::vector<OpCase> MovementOpCases();
// Einsum (op_parity_product_cases.cc).
std::vector<OpCase> EinsumOpCases();
// Recurrent layers (op_parity_recurrent_cases.cc).
std::vector<OpCase> RecurrentOpCases();

}  // namespace cohort
