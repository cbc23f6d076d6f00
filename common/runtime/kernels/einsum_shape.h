#pragma once

// Equations of Einsum, for all backends. Each letter of an equation is a label of an axis, and the
// axes that "..." stands for get labels of their own, counted from the last one. A label has one
// extent; an axis of extent 1 is repeated along its label. Einsum multiplies elements of its inputs
// for all values of all labels, and adds each product to the element of the result that has the
// same labels. Its gradients are the same walk in which the result and an input change places. So
// a walk knows, for each tensor, how far a step along each label moves (the stride, 0 for a label
// that the tensor lacks, and the sum of the strides of axes with the same label).

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/runtime/kernels/kernel_support.h"

namespace cohort {

// The terms of an equation: a letter for each axis, and kEllipsis for "...".
struct EinsumEquation {
  static constexpr char kEllipsis = '.';
  std::vector<std::string> inputs;
  std::string output;
};
// Parses an equation in NumPy's notation. If the equation has no "->", the result has the axes of
// "...", then the labels that occur once in alphabetical order. Errors: INVALID_ARGUMENT naming the
// character or the label that is wrong.
absl::StatusOr<EinsumEquation> ParseEquation(const std::string& equation);

struct EinsumParameters {
  EinsumEquation equation;
  size_t operand = 0;  // the input of Einsum to which an EinsumGrad belongs
};
EinsumParameters ParseEinsum(AttributeReader& reader);
EinsumParameters ParseEinsumGrad(AttributeReader& reader);

// One tensor's strides for all labels of a walk.
using LabelStrides = std::vector<int64_t>;

struct EinsumShape {
  std::vector<int64_t> extents;      // the extent of each label
  std::vector<LabelStrides> inputs;  // those of each input of Einsum
  LabelStrides output;
  Shape result;
};
// Computes the walk of Einsum over inputs of these shapes. Errors: INVALID_ARGUMENT for a number of
// inputs or a rank that contradicts the equation, extents that differ, or a result that is too
// large.
absl::StatusOr<EinsumShape> ResolveEinsum(const EinsumEquation& equation,
                                          absl::Span<const Shape> inputs);

// A walk that adds products of factors to a sum: Einsum itself, or one of its gradients.
struct Contraction {
  std::vector<int64_t> extents;  // the extent of each label
  LabelStrides sum;
  Shape result;  // the shape of the sum
  std::vector<LabelStrides> factors;
  std::vector<Tensor> tensors;  // the factors
};
// Checks the inputs of Einsum, and returns its walk. Errors: those of ResolveEinsum, and
// INVALID_ARGUMENT for inputs of different types.
absl::StatusOr<Contraction> EinsumContraction(const KernelContext& context,
                                              const EinsumParameters& parameters);
// Does so for EinsumGrad, whose inputs are dy and then those of Einsum.
absl::StatusOr<Contraction> EinsumGradContraction(const KernelContext& context,
                                                  const EinsumParameters& parameters);

}  // namespace cohort
