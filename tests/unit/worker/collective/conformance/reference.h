#pragma once

// Collective operations done slowly: one element at a time, in plain scalar code that shares
// nothing with the implementations but the definition of the order of sums.

#include <cstdint>
#include <vector>

#include "worker/collective/collective_call.h"

namespace cohort {

// Inputs of more elements repeat what came so many elements before, and so does what they give: it
// is computed once. A prime, so that no border of a chunk or a frame is a multiple of it.
inline constexpr size_t kInputPeriod = 2003;

// The bytes of so many elements, of which the first kInputPeriod are given.
std::vector<std::byte> Repeated(std::vector<std::byte> period, size_t elements,
                                size_t element_bytes);
// The first of them. The rest repeats them, which is checked.
std::vector<std::byte> OnePeriod(const std::vector<std::byte>& bytes, size_t element_bytes);

// One rank's elements as numbers. Every value of the six types is exact in one of the two.
struct Values {
  std::vector<double> floats;
  std::vector<int64_t> integers;
};

// To and from the bytes of a type, one element at a time.
std::vector<std::byte> ToBytes(DType dtype, const Values& values);
Values FromBytes(DType dtype, const std::vector<std::byte>& bytes);

// Rounded to the nearest value of the type, ties to even: through the digits, not through casts.
double RoundTo(DType dtype, double value);

// What the tree over the ranks gives for one element of each: `op` over the balanced tree, each
// result rounded to the accumulator, the last to the type. `floats` are values of the type.
double TreeOf(DType dtype, ReduceOp op, const std::vector<double>& floats);
int64_t TreeOf(DType dtype, ReduceOp op, const std::vector<int64_t>& integers);

// The output bytes of every rank for the inputs of all ranks.
std::vector<std::vector<std::byte>> ExpectedOutputs(
    const std::vector<CollectiveCall>& calls, const std::vector<std::vector<std::byte>>& inputs);

}  // namespace cohort
