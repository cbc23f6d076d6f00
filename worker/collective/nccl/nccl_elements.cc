#include "worker/collective/nccl/nccl_elements.h"

#include <cstring>
#include <limits>

#include "worker/collective/reduce_tree.h"

namespace cohort {

namespace {

// Returns NCCL's type for the accumulator type of a reduction. With `as_order`, floats travel as
// integers of the same order.
NcclType TypeOf(DType accumulator, bool as_order) {
  const bool wide = ElementSize(accumulator) == 8;
  if (as_order || IsInteger(accumulator)) return wide ? NcclType::kInt64 : NcclType::kInt32;
  return wide ? NcclType::kFloat64 : NcclType::kFloat32;
}

NcclReduction ReductionOf(ReduceOp reduce) {
  switch (reduce) {
    case ReduceOp::kSum:
    case ReduceOp::kMean:
      return NcclReduction::kSum;
    case ReduceOp::kMin:
      return NcclReduction::kMin;
    case ReduceOp::kMax:
      return NcclReduction::kMax;
    case ReduceOp::kProd:
      return NcclReduction::kProd;
  }
  return NcclReduction::kSum;
}

// Maps the bits of a float to an integer that orders as the float does, and back. As integers, the
// bits of positive floats have the floats' order, and those of negative floats the opposite order.
// The least and the largest integer are the bits of a NaN.
template <typename Integer>
Integer Turned(Integer digits) {
  constexpr Integer kMost = std::numeric_limits<Integer>::max();
  return digits < 0 ? digits ^ kMost : digits;
}

// Converts floats to integers of the same order, in place. A NaN becomes the integer that wins the
// reduction (min or max).
template <typename Float, typename Integer>
void ToOrder(std::byte* values, int64_t elements, ReduceOp reduce) {
  using Limits = std::numeric_limits<Integer>;
  const Integer beyond = reduce == ReduceOp::kMin ? Limits::min() : Limits::max();
  for (int64_t i = 0; i < elements; ++i) {
    std::byte* const at = values + static_cast<size_t>(i) * sizeof(Integer);
    Float value;
    Integer digits;
    std::memcpy(&value, at, sizeof(value));
    std::memcpy(&digits, at, sizeof(digits));
    digits = value != value ? beyond : Turned(digits);
    std::memcpy(at, &digits, sizeof(digits));
  }
}

// Converts the integers of ToOrder() back to floats, in place.
template <typename Integer>
void FromOrder(std::byte* values, int64_t elements) {
  for (int64_t i = 0; i < elements; ++i) {
    std::byte* const at = values + static_cast<size_t>(i) * sizeof(Integer);
    Integer digits;
    std::memcpy(&digits, at, sizeof(digits));
    digits = Turned(digits);
    std::memcpy(at, &digits, sizeof(digits));
  }
}

}  // namespace

NcclElements::NcclElements(const CollectiveCall& call, int size)
    : dtype_(call.dtype),
      reduce_(call.reduce),
      divisor_(call.reduce == ReduceOp::kMean ? size : 1),
      reduces_(Reduces(call.op)),
      as_order_(reduces_ && !IsInteger(dtype_) &&
                (reduce_ == ReduceOp::kMin || reduce_ == ReduceOp::kMax)),
      bytes_(ElementSize(reduces_ ? AccumulatorOf(dtype_) : dtype_)),
      type_(reduces_ ? TypeOf(AccumulatorOf(dtype_), as_order_) : NcclType::kBytes),
      reduction_(ReductionOf(reduce_)) {}

NcclRun NcclElements::RunOf(int64_t elements) const {
  const auto count = static_cast<uint64_t>(elements);
  return {type_ == NcclType::kBytes ? count * bytes_ : count, type_};
}

void NcclElements::ToNccl(const std::byte* from, int64_t elements, std::byte* to) const {
  const auto count = static_cast<size_t>(elements);
  if (!reduces_) {
    std::memcpy(to, from, count * bytes_);
    return;
  }
  // With a single operand, CombineTree() only widens 16-bit floats.
  const Operand operand = {from, false};
  CombineTree({dtype_, reduce_}, {&operand, 1}, count, {to, true, 1});
  if (!as_order_) return;
  if (bytes_ == 8) return ToOrder<double, int64_t>(to, elements, reduce_);
  ToOrder<float, int32_t>(to, elements, reduce_);
}

void NcclElements::FromNccl(std::byte* from, int64_t elements, std::byte* to) const {
  const auto count = static_cast<size_t>(elements);
  if (!reduces_) {
    std::memcpy(to, from, count * bytes_);
    return;
  }
  if (as_order_ && bytes_ == 8) FromOrder<int64_t>(from, elements);
  if (as_order_ && bytes_ == 4) FromOrder<int32_t>(from, elements);
  // With a single operand, CombineTree() only divides a mean and rounds to 16 bits.
  const Operand operand = {from, true};
  CombineTree({dtype_, reduce_}, {&operand, 1}, count, {to, false, divisor_});
}

}  // namespace cohort
