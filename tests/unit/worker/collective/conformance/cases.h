#pragma once

// Inputs and calls of the conformance suite, and how results are compared. Internal to it.

#include <cstdint>
#include <string>
#include <vector>

#include "tests/unit/worker/collective/conformance/group_run.h"

namespace cohort {

using Bytes = std::vector<std::byte>;

inline constexpr DType kReducedTypes[] = {DType::kFloat32,  DType::kFloat64, DType::kFloat16,
                                          DType::kBfloat16, DType::kInt32,   DType::kInt64};
inline constexpr ReduceOp kReduceOps[] = {ReduceOp::kSum, ReduceOp::kMean, ReduceOp::kMin,
                                          ReduceOp::kMax, ReduceOp::kProd};

bool IsIntegerDType(DType dtype);
// Integers have no mean.
bool Defined(DType dtype, ReduceOp reduce);

// Drawn from the seed: all digits used, products that stay finite, integers that wrap. Long ones
// repeat (reference.h).
Bytes RandomInput(DType dtype, ReduceOp reduce, int64_t elements, uint64_t seed);
// Small whole numbers, powers of two for products: every order of a sum gives the same bits.
Bytes ExactInput(DType dtype, ReduceOp reduce, int64_t elements, uint64_t seed);

// For each rank, as many elements as its call says.
std::vector<Bytes> RandomInputs(const std::vector<CollectiveCall>& calls, uint64_t seed);
std::vector<Bytes> InputsFor(Draw draw, const std::vector<CollectiveCall>& calls, uint64_t seed);

// The same call on all ranks.
std::vector<CollectiveCall> CallsOf(int size, const CollectiveCall& call);

// The calls of all ranks, with unequal parts where the operation has parts: 0, 1, 2, ... elements
// in turn, none for some ranks, and a long one. Rank r of an all-to-all sends to each what the
// parts turned by r say.
std::vector<CollectiveCall> WithParts(int size, CollectiveCall call, int64_t longest);

// What all ranks must have: reference.h, or the ring's order.
std::vector<Bytes> Wanted(const std::vector<CollectiveCall>& calls,
                          const std::vector<Bytes>& inputs);

// As ==, which looks at one byte at a time.
bool SameBytes(const Bytes& a, const Bytes& b);

// "" when the bits are equal; two NaN are equal whatever their digits. Else the first difference.
std::string Difference(DType dtype, const Bytes& got, const Bytes& wanted);

// Runs it and expects success, the wanted bits on all ranks and nothing written beside them.
void ExpectRight(GroupUnderTest& group, const std::vector<CollectiveCall>& calls, uint64_t seed,
                 Place place, const std::string& where);

// Of all statuses: the same code and the same words.
void ExpectOneCause(const GroupResult& result, absl::StatusCode code, const std::string& part);

}  // namespace cohort
