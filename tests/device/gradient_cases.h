#pragma once

// What the gradient test differentiates: one line per operator, attribute and broadcast pattern.

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "common/program/graph_builder.h"

namespace cohort {

// The values an input is filled with.
enum class Fill {
  kReal,         // [-2, 2]
  kPositive,     // [0.5, 2.5]
  kProbability,  // [0.05, 0.95]
  kLabel,        // int64 in [0, bound): no gradient
  kIndex,        // int64 in [-bound, bound): no gradient
  kData,         // real, but the operator gives it no gradient (soft labels, class weights)
};

struct GradientInput {
  std::vector<int64_t> dims;  // -1 is the symbolic batch
  Fill fill = Fill::kReal;
  int64_t bound = 0;
};

// Adds the operator under test; returns the value whose weighted sum is the loss. `dtype` is that
// of the real inputs.
using BuildCase = std::function<std::string(GraphBuilder& builder,
                                            const std::vector<std::string>& inputs, DType dtype)>;

struct GradientCase {
  std::string name;
  std::vector<GradientInput> inputs;
  BuildCase build;
};

std::vector<GradientCase> MathGradientCases();
std::vector<GradientCase> ProductGradientCases();
std::vector<GradientCase> TensorGradientCases();
std::vector<GradientCase> LossGradientCases();
std::vector<GradientCase> ImageGradientCases();
std::vector<GradientCase> CompositeGradientCases();
std::vector<GradientCase> FunctionGradientCases();
std::vector<GradientCase> BinaryGradientCases();
std::vector<GradientCase> ReductionGradientCases();
std::vector<GradientCase> MovementGradientCases();
std::vector<GradientCase> EinsumGradientCases();
std::vector<GradientCase> RecurrentGradientCases();

// A case whose graph is one node.
BuildCase OneNode(const std::string& op, std::vector<onnx::AttributeProto> attributes = {},
                  const std::string& domain = "");
// A case whose graph is one node, whose last inputs are constants.
BuildCase NodeWith(const std::string& op, std::vector<Tensor> constants,
                   std::vector<onnx::AttributeProto> attributes = {});
// A vector of int64.
Tensor Numbers(std::vector<int64_t> values);

}  // namespace cohort
