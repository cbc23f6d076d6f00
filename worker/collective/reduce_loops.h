#pragma once

// The loops under reduce_tree.h, one pass over memory each, vectorised. Internal to
// worker/collective.

#include <cstddef>

#include "worker/collective/collective_call.h"

namespace cohort {

// Elements of any address.
template <typename T>
struct __attribute__((packed, may_alias)) Unaligned {
  T value;
};

template <typename T>
struct ReduceLoops {
  using In = const Unaligned<T>*;
  using Out = Unaligned<T>*;
  void (*two)(In a, In b, size_t count, Out out);               // a.b
  void (*four)(In a, In b, In c, In d, size_t count, Out out);  // (a.b).(c.d)
};

// Returns the loops for float, double, int32_t and int64_t. Those of kMean are those of kSum.
template <typename T>
const ReduceLoops<T>& LoopsOf(ReduceOp op);

void DivideFloats(Unaligned<float>* values, size_t count, float divisor);
void DivideDoubles(Unaligned<double>* values, size_t count, double divisor);

}  // namespace cohort
