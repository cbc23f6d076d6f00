#pragma once

// Collective operations done slowly: one element at a time, in plain scalar code that shares
// nothing with the implementations but the definition of the order of sums.

#include <cstdint>
#include <vector>

#include "worker/collective/collective_call.h"

namespace cohort {

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
