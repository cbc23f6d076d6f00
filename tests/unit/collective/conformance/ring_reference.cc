#include <algorithm>

#include "common/base/check.h"
#include "tests/unit/collective/conformance/conformance.h"
#include "tests/unit/collective/conformance/reference.h"

namespace cohort {

namespace {

constexpr int64_t kAlignmentBytes = 64;
constexpr int64_t kChunkBytes = int64_t{4} << 20;

// TensorFlow's division of a tensor among n ranks of one device each (ring_alg.cc, as
// tf.distribute's users meet it): one subdivision, or two when a chunk would be over 4 MiB; chunks
// of the same number of elements, rounded up to a multiple of 64 bytes and then, if they were one
// already, by one more.
int64_t ElementsOfRank(int64_t total, int64_t element_bytes, int64_t n) {
  int64_t subdivisions = 1;
  while (total * element_bytes / (n * subdivisions) > kChunkBytes && subdivisions < 2) {
    ++subdivisions;
  }
  const int64_t pieces = n * subdivisions;
  const int64_t bytes = (total + pieces - 1) / pieces * element_bytes;
  const int64_t more =
      kAlignmentBytes - (bytes < kAlignmentBytes ? bytes : bytes % kAlignmentBytes);
  return (bytes + more) / element_bytes * subdivisions;
}

// The rank where the sum of the element starts.
size_t FirstRank(const CollectiveCall& call, int64_t element, size_t n) {
  if (call.op == CollectiveOp::kAllReduce) {
    const auto element_bytes = static_cast<int64_t>(ElementSize(call.dtype));
    return static_cast<size_t>(element /
                               ElementsOfRank(call.count, element_bytes, static_cast<int64_t>(n)));
  }
  // Of a reduce-scatter it starts after the rank whose part it is, and ends there.
  size_t owner = 0;
  for (int64_t end = call.counts[0]; element >= end; end += call.counts[owner]) ++owner;
  return (owner + 1) % n;
}

}  // namespace

std::vector<std::byte> RingReference(const CollectiveCall& call,
                                     const std::vector<std::vector<std::byte>>& inputs) {
  const size_t n = inputs.size();
  std::vector<Values> values;
  for (const auto& input : inputs) values.push_back(FromBytes(call.dtype, input));
  const bool integers = call.dtype == DType::kInt32 || call.dtype == DType::kInt64;
  const DType wide = call.dtype == DType::kFloat64 ? DType::kFloat64 : DType::kFloat32;
  const ReduceOp pair_op = call.reduce == ReduceOp::kMean ? ReduceOp::kSum : call.reduce;
  Values result;
  const auto count = static_cast<int64_t>(inputs[0].size() / ElementSize(call.dtype));
  for (int64_t i = 0; i < count; ++i) {
    const auto at = static_cast<size_t>(i);
    const size_t first = FirstRank(call, i, n);
    COHORT_CHECK(first < n, "a chunk of a rank");
    double sum = integers ? 0 : values[first].floats[at];
    int64_t whole = integers ? values[first].integers[at] : 0;
    for (size_t step = 1; step < n; ++step) {
      const Values& next = values[(first + step) % n];
      if (integers) {
        whole = TreeOf(call.dtype, pair_op, std::vector<int64_t>{whole, next.integers[at]});
      } else {
        sum = TreeOf(wide, pair_op, std::vector<double>{sum, next.floats[at]});
      }
    }
    if (call.reduce == ReduceOp::kMean) sum = RoundTo(wide, sum / static_cast<double>(n));
    if (integers) {
      result.integers.push_back(whole);
    } else {
      result.floats.push_back(RoundTo(call.dtype, sum));
    }
  }
  return ToBytes(call.dtype, result);
}

}  // namespace cohort
