#include "tests/unit/worker/collective/conformance/cases.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "common/base/rng.h"
#include "tests/unit/worker/collective/conformance/conformance.h"
#include "tests/unit/worker/collective/conformance/reference.h"

namespace cohort {

namespace {

// 0, 1, 2, ... elements in turn, none for some ranks, and a long one.
std::vector<int64_t> UnequalCounts(int size, int64_t longest) {
  std::vector<int64_t> counts;
  for (int r = 0; r < size; ++r) counts.push_back(r % 3 == 1 ? 0 : 7 * r + 1);
  counts.back() = longest;
  return counts;
}

}  // namespace

bool IsIntegerDType(DType dtype) { return dtype == DType::kInt32 || dtype == DType::kInt64; }

bool Defined(DType dtype, ReduceOp reduce) {
  return !(IsIntegerDType(dtype) && reduce == ReduceOp::kMean);
}

Bytes RandomInput(DType dtype, ReduceOp reduce, int64_t elements, uint64_t seed) {
  const RandomStream random(seed, "collective input");
  Values values;
  const auto count = static_cast<size_t>(elements);
  for (size_t i = 0; i < std::min(count, kInputPeriod); ++i) {
    const uint64_t bits = random.Bits(i);
    if (IsIntegerDType(dtype)) {
      values.integers.push_back(dtype == DType::kInt32
                                    ? int64_t{static_cast<int32_t>(static_cast<uint32_t>(bits))}
                                    : static_cast<int64_t>(bits));
      continue;
    }
    const double unit = static_cast<double>(bits >> 11) * 0x1.0p-53;
    const double wide = std::ldexp(2 * unit - 1, static_cast<int>(bits % 8));
    values.floats.push_back(RoundTo(dtype, reduce == ReduceOp::kProd ? 0.5 + unit : wide));
  }
  return Repeated(ToBytes(dtype, values), count, ElementSize(dtype));
}

Bytes ExactInput(DType dtype, ReduceOp reduce, int64_t elements, uint64_t seed) {
  const RandomStream random(seed, "collective input");
  Values values;
  const auto count = static_cast<size_t>(elements);
  for (size_t i = 0; i < std::min(count, kInputPeriod); ++i) {
    const auto small = static_cast<int64_t>(random.Bits(i) % 33) - 16;
    const int64_t power = int64_t{1} << (random.Bits(i) % 2);
    const int64_t value = reduce == ReduceOp::kProd ? (small < 0 ? -power : power) : small;
    values.integers.push_back(value);
    values.floats.push_back(static_cast<double>(value));
  }
  return Repeated(ToBytes(dtype, values), count, ElementSize(dtype));
}

std::vector<Bytes> InputsFor(Draw draw, const std::vector<CollectiveCall>& calls, uint64_t seed) {
  std::vector<Bytes> inputs;
  for (size_t r = 0; r < calls.size(); ++r) {
    const int64_t elements = InputElements(calls[r], static_cast<int>(r));
    const auto make = draw == Draw::kAllDigits ? RandomInput : ExactInput;
    inputs.push_back(make(calls[r].dtype, calls[r].reduce, elements, seed * 64 + r));
  }
  return inputs;
}

std::vector<Bytes> RandomInputs(const std::vector<CollectiveCall>& calls, uint64_t seed) {
  return InputsFor(Draw::kAllDigits, calls, seed);
}

std::vector<CollectiveCall> CallsOf(int size, const CollectiveCall& call) {
  return std::vector<CollectiveCall>(static_cast<size_t>(size), call);
}

std::vector<CollectiveCall> WithParts(int size, CollectiveCall call, int64_t longest) {
  const bool exchange = call.op == CollectiveOp::kAllToAll;
  if (exchange || call.op == CollectiveOp::kReduceScatter || call.op == CollectiveOp::kAllGather) {
    call.count = 0;
    call.counts = UnequalCounts(size, longest);
  }
  std::vector<CollectiveCall> calls = CallsOf(size, call);
  for (size_t r = 0; exchange && r < calls.size(); ++r) {
    for (size_t to = 0; to < calls.size(); ++to) {
      calls[r].counts[to] = call.counts[(to + r) % calls.size()];
      calls[r].receive_counts.push_back(call.counts[(r + to) % calls.size()]);
    }
  }
  return calls;
}

std::vector<Bytes> Wanted(const std::vector<CollectiveCall>& calls,
                          const std::vector<Bytes>& inputs) {
  const CollectiveCall& call = calls[0];
  const bool ring = call.algorithm == CollectiveAlgorithm::kRing;
  if (!ring || call.op == CollectiveOp::kAllGather) return ExpectedOutputs(calls, inputs);
  const Bytes all = RingReference(call, inputs);
  if (call.op == CollectiveOp::kAllReduce) return std::vector<Bytes>(calls.size(), all);
  std::vector<Bytes> parts;
  auto begin = all.begin();
  for (const int64_t count : call.counts) {
    const auto end = begin + count * static_cast<int64_t>(ElementSize(call.dtype));
    parts.emplace_back(begin, end);
    begin = end;
  }
  return parts;
}

bool SameBytes(const Bytes& a, const Bytes& b) {
  return a.size() == b.size() && (a.empty() || std::memcmp(a.data(), b.data(), a.size()) == 0);
}

std::string Difference(DType dtype, const Bytes& got, const Bytes& wanted) {
  if (got.size() != wanted.size()) return "another size";
  if (SameBytes(got, wanted)) return "";
  if (IsIntegerDType(dtype) || ElementSize(dtype) == 1) return "other integers";
  const Values a = FromBytes(dtype, got);
  const Values b = FromBytes(dtype, wanted);
  const size_t element = ElementSize(dtype);
  for (size_t i = 0; i < a.floats.size(); ++i) {
    if (std::isnan(a.floats[i]) && std::isnan(b.floats[i])) continue;
    if (std::memcmp(&got[i * element], &wanted[i * element], element) != 0) {
      return absl::StrCat("element ", i, " is ", a.floats[i], ", not ", b.floats[i]);
    }
  }
  return "";
}

void ExpectRight(GroupUnderTest& group, const std::vector<CollectiveCall>& calls, uint64_t seed,
                 Place place, const std::string& where) {
  const std::vector<Bytes> inputs = InputsFor(group.draw(), calls, seed);
  const std::vector<Bytes> wanted = Wanted(calls, inputs);
  const GroupResult result = RunGroup(group, calls, inputs, place, static_cast<int>(seed % 2));
  for (size_t r = 0; r < calls.size(); ++r) {
    const std::string at =
        absl::StrCat(where, ", rank ", r, " of ", calls.size(), ", ", DescribeCall(calls[r]),
                     ", seed ", seed, place == Place::kInPlace ? ", in place" : "");
    ASSERT_TRUE(result.statuses[r].ok()) << at << ": " << result.statuses[r];
    ASSERT_EQ(Difference(calls[r].dtype, result.outputs[r], wanted[r]), "") << at;
    if (place == Place::kApart) {
      ASSERT_TRUE(SameBytes(result.inputs[r], inputs[r])) << at << ": the input changed";
    }
  }
  ASSERT_TRUE(result.borders_hold) << where << ", " << DescribeCall(calls[0]);
}

void ExpectOneCause(const GroupResult& result, absl::StatusCode code, const std::string& part) {
  for (size_t r = 0; r < result.statuses.size(); ++r) {
    EXPECT_EQ(result.statuses[r].code(), code) << "rank " << r << ": " << result.statuses[r];
    EXPECT_THAT(std::string(result.statuses[r].message()), testing::HasSubstr(part)) << r;
    EXPECT_EQ(result.statuses[r].message(), result.statuses[0].message()) << "rank " << r;
  }
}

}  // namespace cohort
