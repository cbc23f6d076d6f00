#include "worker/collective/reduce_loops.h"

#include <cstdint>
#include <type_traits>

#include "common/runtime/kernel/simd.h"

namespace cohort {

namespace {

// Adds two numbers. Integers are added as unsigned numbers, so that an overflow wraps.
template <typename T>
COHORT_INLINE T Add(T a, T b) {
  if constexpr (std::is_integral_v<T>) {
    using U = std::make_unsigned_t<T>;
    return static_cast<T>(static_cast<U>(a) + static_cast<U>(b));
  } else {
    return a + b;
  }
}

template <typename T>
COHORT_INLINE T Multiply(T a, T b) {
  if constexpr (std::is_integral_v<T>) {
    using U = std::make_unsigned_t<T>;
    return static_cast<T>(static_cast<U>(a) * static_cast<U>(b));
  } else {
    return a * b;
  }
}

// Returns the lesser of two numbers, or NaN if one of them is NaN. A NaN in `a` is chosen by the
// test a != a; a NaN in `b` is chosen because no comparison with NaN holds.
template <typename T>
COHORT_INLINE T Least(T a, T b) {
  return ((a < b) | (a != a)) ? a : b;
}
template <typename T>
COHORT_INLINE T Greatest(T a, T b) {
  return ((a > b) | (a != a)) ? a : b;
}

// Defines the loops over two and over four operands, for one type and one operation.
#define COHORT_REDUCE_LOOPS(NAME, T, COMBINE)                                                      \
  COHORT_SIMD void NAME##Two(const Unaligned<T>* a, const Unaligned<T>* b, size_t count,           \
                             Unaligned<T>* out) {                                                  \
    COHORT_IVDEP                                                                                   \
    for (size_t i = 0; i < count; ++i) out[i].value = COMBINE<T>(a[i].value, b[i].value);          \
  }                                                                                                \
  COHORT_SIMD void NAME##Four(const Unaligned<T>* a, const Unaligned<T>* b, const Unaligned<T>* c, \
                              const Unaligned<T>* d, size_t count, Unaligned<T>* out) {            \
    COHORT_IVDEP                                                                                   \
    for (size_t i = 0; i < count; ++i) {                                                           \
      out[i].value =                                                                               \
          COMBINE<T>(COMBINE<T>(a[i].value, b[i].value), COMBINE<T>(c[i].value, d[i].value));      \
    }                                                                                              \
  }

#define COHORT_REDUCE_TYPE(NAME, T)           \
  COHORT_REDUCE_LOOPS(NAME##Sum, T, Add)      \
  COHORT_REDUCE_LOOPS(NAME##Min, T, Least)    \
  COHORT_REDUCE_LOOPS(NAME##Max, T, Greatest) \
  COHORT_REDUCE_LOOPS(NAME##Prod, T, Multiply)

COHORT_REDUCE_TYPE(Float, float)
COHORT_REDUCE_TYPE(Double, double)
COHORT_REDUCE_TYPE(Int32, int32_t)
COHORT_REDUCE_TYPE(Int64, int64_t)

}  // namespace

// Defines LoopsOf for one type. The entries are in the order of ReduceOp: sum, mean, min, max,
// prod.
#define COHORT_LOOPS_OF(NAME, T)                                                  \
  template <>                                                                     \
  const ReduceLoops<T>& LoopsOf<T>(ReduceOp op) {                                 \
    static constexpr ReduceLoops<T> kLoops[] = {{NAME##SumTwo, NAME##SumFour},    \
                                                {NAME##SumTwo, NAME##SumFour},    \
                                                {NAME##MinTwo, NAME##MinFour},    \
                                                {NAME##MaxTwo, NAME##MaxFour},    \
                                                {NAME##ProdTwo, NAME##ProdFour}}; \
    return kLoops[static_cast<size_t>(op)];                                       \
  }

COHORT_LOOPS_OF(Float, float)
COHORT_LOOPS_OF(Double, double)
COHORT_LOOPS_OF(Int32, int32_t)
COHORT_LOOPS_OF(Int64, int64_t)

COHORT_SIMD void DivideFloats(Unaligned<float>* values, size_t count, float divisor) {
  for (size_t i = 0; i < count; ++i) values[i].value /= divisor;
}

COHORT_SIMD void DivideDoubles(Unaligned<double>* values, size_t count, double divisor) {
  for (size_t i = 0; i < count; ++i) values[i].value /= divisor;
}

}  // namespace cohort
