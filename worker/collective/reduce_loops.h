#pragma once

// The vectorised loops that reduce_tree.h is built on. Each loop passes over memory once. Internal
// to worker/collective.

#include <cstddef>

#include "worker/collective/collective_call.h"

namespace cohort {

// An element that may lie at any address, aligned or not.
template <typename T>
struct __attribute__((packed, may_alias)) Unaligned {
  T value;
};

template <typename T>
struct ReduceLoops {
  using In = const Unaligned<T>*;
  using Out = Unaligned<T>*;
  // Computes out[i] = a[i].b[i], where . is the operation of the reduction.
  void (*two)(In a, In b, size_t count, Out out);
  void (*four)(In a, In b, In c, In d, size_t count, Out out);  // out[i] = (a[i].b[i]).(c[i].d[i])
};

// Returns the loops of `op` for float, double, int32_t or int64_t. The loops of kMean are those of
// kSum.
template <typename T>
const ReduceLoops<T>& LoopsOf(ReduceOp op);

void DivideFloats(Unaligned<float>* values, size_t count, float divisor);
void DivideDoubles(Unaligned<double>* values, size_t count, double divisor);

}  // namespace cohort
