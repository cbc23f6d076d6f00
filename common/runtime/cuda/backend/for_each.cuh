#pragma once

// The two forms of every loop over elements on a device. nvcc makes a kernel of such a loop. Any
// other compiler makes a plain loop, so tests run the same loop bodies on the processor.
//
// A loop body is a lambda that captures by value: [=] COHORT_DEVICE(int64_t i) { ... }. The body
// for one element must not read what the body for another element of the same loop writes.

#include <cstdint>

#ifdef __CUDACC__
#include <cub/block/block_reduce.cuh>

#include "common/runtime/cuda/backend/cuda_context.h"
#define COHORT_DEVICE __device__
#else
#include <functional>

#include "common/runtime/cuda/launches/launches.h"
#define COHORT_DEVICE
#endif

namespace cohort {

#ifdef __CUDACC__

inline constexpr int kForEachThreads = 256;
inline constexpr int64_t kForEachBlocksMax = 65536;
// The largest number of elements that a single thread reduces. A block of threads reduces longer
// rows.
inline constexpr int64_t kReduceAloneMax = 32;
// The smallest number of elements for which a whole block of threads is worthwhile. If a launch
// computes only few reductions, each is split into parts of at least this length.
inline constexpr int64_t kReducePartMin = 2048;

template <typename Body>
__global__ void ForEachKernel(int64_t count, Body body) {
  const int64_t stride = static_cast<int64_t>(gridDim.x) * blockDim.x;
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < count;
       i += stride) {
    body(i);
  }
}

inline int64_t BlocksOf(int64_t threads) {
  const int64_t blocks = (threads + kForEachThreads - 1) / kForEachThreads;
  return blocks < kForEachBlocksMax ? blocks : kForEachBlocksMax;
}

// Posts a loop that calls body(i) for each i in [0, count).
template <typename Body>
int32_t ForEach(CudaContext* context, int64_t count, Body body) {
  if (count == 0) return kCudaDone;
  if (const int32_t code = Enter(context); code != kCudaDone) return code;
  ForEachKernel<<<static_cast<unsigned>(BlocksOf(count)), kForEachThreads, 0, context->stream>>>(
      count, body);
  return LastLaunch();
}

template <typename Value, typename Load, typename Combine, typename Store>
__global__ void ReduceKernel(int64_t count, int64_t length, Value identity, Load load,
                             Combine combine, Store store) {
  using Reduce = cub::BlockReduce<Value, kForEachThreads>;
  __shared__ typename Reduce::TempStorage memory;
  for (int64_t i = blockIdx.x; i < count; i += gridDim.x) {
    Value value = identity;
    for (int64_t k = threadIdx.x; k < length; k += kForEachThreads) {
      value = combine(value, load(i, k));
    }
    value = Reduce(memory).Reduce(value, combine);
    if (threadIdx.x == 0) store(i, value);
    __syncthreads();
  }
}

template <typename Value, typename Load, typename Combine, typename Store>
void PostReduce(CudaContext* context, int64_t count, int64_t length, Value identity, Load load,
                Combine combine, Store store) {
  const int64_t blocks = count < kForEachBlocksMax ? count : kForEachBlocksMax;
  ReduceKernel<<<static_cast<unsigned>(blocks), kForEachThreads, 0, context->stream>>>(
      count, length, identity, load, combine, store);
}

// Returns the number of parts into which each of `count` reductions of `length` elements is split.
// The number depends on the sizes alone, so that a result has the same bits on every GPU.
inline int64_t ReducePartsOf(int64_t count, int64_t length) {
  const int64_t wanted = kReduceBlocks / count;
  const int64_t paying = length / kReducePartMin;
  const int64_t parts = wanted < paying ? wanted : paying;
  return parts < 1 ? 1 : parts;
}

// Posts `count` reductions. For each i in [0, count), combines load(i, k) over all k in [0, length)
// and passes the result to store(i, result). The order of combining depends on `count` and `length`
// only. combine(identity, v) is v, and combine is associative up to rounding.
template <typename Value, typename Load, typename Combine, typename Store>
int32_t ReduceEach(CudaContext* context, int64_t count, int64_t length, Value identity, Load load,
                   Combine combine, Store store) {
  static_assert(sizeof(Value) <= kReduceValueBytesMax);
  if (length <= kReduceAloneMax) {
    return ForEach(context, count, [=] COHORT_DEVICE(int64_t i) {
      Value value = identity;
      for (int64_t k = 0; k < length; ++k) value = combine(value, load(i, k));
      store(i, value);
    });
  }
  if (count == 0) return kCudaDone;
  if (const int32_t code = Enter(context); code != kCudaDone) return code;
  const int64_t parts = ReducePartsOf(count, length);
  if (parts == 1) {
    PostReduce(context, count, length, identity, load, combine, store);
    return LastLaunch();
  }
  // A second launch combines the parts of each reduction. Launches of one stream run one after
  // another, so that one buffer is enough for all reductions of a context.
  auto* const partials = static_cast<Value*>(context->partials);
  const int64_t of_part = (length + parts - 1) / parts;
  PostReduce(
      context, count * parts, of_part, identity,
      [=] COHORT_DEVICE(int64_t i, int64_t k) {
        const int64_t at = i % parts * of_part + k;
        return at < length ? load(i / parts, at) : identity;
      },
      combine, [=] COHORT_DEVICE(int64_t i, const Value& value) { partials[i] = value; });
  PostReduce(
      context, count, parts, identity,
      [=] COHORT_DEVICE(int64_t i, int64_t part) { return partials[i * parts + part]; }, combine,
      store);
  return LastLaunch();
}

#else

// Posts work to the stand-in for a device (tests/support/cuda_stand_in), with which tests do a
// device's work on the processor.
int32_t PostToDevice(CudaContext* context, std::function<void()> work);

template <typename Body>
int32_t ForEach(CudaContext* context, int64_t count, Body body) {
  return PostToDevice(context, [=] {
    for (int64_t i = 0; i < count; ++i) body(i);
  });
}

template <typename Value, typename Load, typename Combine, typename Store>
int32_t ReduceEach(CudaContext* context, int64_t count, int64_t length, Value identity, Load load,
                   Combine combine, Store store) {
  return ForEach(context, count, [=](int64_t i) {
    Value value = identity;
    for (int64_t k = 0; k < length; ++k) value = combine(value, load(i, k));
    store(i, value);
  });
}

#endif

// The function that adds two values, passed to ReduceEach as `combine` to compute sums.
struct AddUp {
  template <typename Value>
  COHORT_DEVICE Value operator()(const Value& a, const Value& b) const {
    return a + b;
  }
};

}  // namespace cohort
