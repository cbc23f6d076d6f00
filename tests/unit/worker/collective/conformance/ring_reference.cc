#include <algorithm>

#include "common/base/check.h"
#include "tests/unit/worker/collective/conformance/conformance.h"
#include "tests/unit/worker/collective/conformance/reference.h"

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

// One element of all ranks, which their sum is made of from rank `first` on.
struct Column {
  DType dtype;
  ReduceOp reduce;
  std::vector<double> floats;
  std::vector<int64_t> integers;
};

void SumRound(const Column& column, size_t first, Values& result) {
  const DType wide = column.dtype == DType::kFloat64 ? DType::kFloat64 : DType::kFloat32;
  const ReduceOp pair_op = column.reduce == ReduceOp::kMean ? ReduceOp::kSum : column.reduce;
  if (!column.integers.empty()) {
    const size_t n = column.integers.size();
    int64_t whole = column.integers[first];
    for (size_t step = 1; step < n; ++step) {
      const int64_t next = column.integers[(first + step) % n];
      whole = TreeOf(column.dtype, pair_op, std::vector<int64_t>{whole, next});
    }
    return result.integers.push_back(whole);
  }
  const size_t n = column.floats.size();
  double sum = column.floats[first];
  for (size_t step = 1; step < n; ++step) {
    const double next = column.floats[(first + step) % n];
    sum = TreeOf(wide, pair_op, std::vector<double>{sum, next});
  }
  if (column.reduce == ReduceOp::kMean) sum = RoundTo(wide, sum / static_cast<double>(n));
  result.floats.push_back(RoundTo(column.dtype, sum));
}

// Of `count` elements from `begin` on, with all sums from rank `first` on. `values`: one period.
std::vector<std::byte> SumsFrom(size_t first, const CollectiveCall& call,
                                const std::vector<Values>& values, size_t begin, size_t count) {
  const size_t period = std::max(values[0].floats.size(), values[0].integers.size());
  Values result;
  for (size_t i = begin; i < begin + count; ++i) {
    Column column{call.dtype, call.reduce, {}, {}};
    for (const Values& one : values) {
      if (one.integers.empty()) {
        column.floats.push_back(one.floats[i % period]);
      } else {
        column.integers.push_back(one.integers[i % period]);
      }
    }
    SumRound(column, first, result);
  }
  return ToBytes(call.dtype, result);
}

}  // namespace

std::vector<std::byte> RingReference(const CollectiveCall& call,
                                     const std::vector<std::vector<std::byte>>& inputs) {
  const size_t n = inputs.size();
  const size_t element = ElementSize(call.dtype);
  std::vector<Values> values;
  for (const auto& input : inputs) {
    values.push_back(FromBytes(call.dtype, OnePeriod(input, element)));
  }
  std::vector<std::byte> result;
  const size_t count = inputs[0].size() / element;
  for (size_t begin = 0; begin < count;) {
    const size_t first = FirstRank(call, static_cast<int64_t>(begin), n);
    COHORT_CHECK(first < n, "a chunk of a rank");
    size_t end = begin + 1;
    while (end < count && FirstRank(call, static_cast<int64_t>(end), n) == first) ++end;
    const std::vector<std::byte> part =
        Repeated(SumsFrom(first, call, values, begin, std::min(end - begin, kInputPeriod)),
                 end - begin, element);
    result.insert(result.end(), part.begin(), part.end());
    begin = end;
  }
  return result;
}

}  // namespace cohort
