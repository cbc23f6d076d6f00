#include "worker/collective/reduce_tree.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "common/base/check.h"
#include "common/runtime/kernel/half_floats.h"
#include "common/runtime/kernel/simd.h"

namespace cohort {

namespace {

// A number that may lie at any address, aligned or not.
template <typename T>
struct __attribute__((packed, may_alias)) Unaligned {
  T value;
};

// The vectorised loops that combine two or four arrays by one ReduceOp, in one pass over memory.
template <typename T>
struct ReduceLoops {
  using In = const Unaligned<T>*;
  using Out = Unaligned<T>*;
  // Computes out[i] = a[i] . b[i], where . is the ReduceOp.
  void (*two)(In a, In b, size_t count, Out out);
  // Computes out[i] = (a[i] . b[i]) . (c[i] . d[i]), where . is the ReduceOp.
  void (*four)(In a, In b, In c, In d, size_t count, Out out);
};

// Returns the loops for `op` on elements of type T: float, double, int32_t or int64_t. kMean has
// the loops of kSum, because the division comes last.
template <typename T>
const ReduceLoops<T>& LoopsOf(ReduceOp op);

// Returns a + b. Integers are added as unsigned numbers, so that an overflow wraps around.
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

// Returns the lesser of two numbers, or NaN if one of them is NaN: a != a chooses a NaN in `a`;
// with a NaN in `b`, both tests fail and `b` is chosen.
template <typename T>
COHORT_INLINE T Least(T a, T b) {
  return ((a < b) | (a != a)) ? a : b;
}
template <typename T>
COHORT_INLINE T Greatest(T a, T b) {
  return ((a > b) | (a != a)) ? a : b;
}

// Defines the loops over two and over four arrays, for elements of one type and one ReduceOp.
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

// Defines LoopsOf() for one type. The entries are in the order of ReduceOp: sum, mean, min, max,
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

// The number of elements that are combined at a time, so that the blocks of all operands and
// partial sums stay in the first-level cache.
constexpr size_t kBlockElements = 1024;
// The depth of the tree over kRanksMax ranks. Each level has two blocks of memory.
constexpr int kLevelsMax = 11;

// The tree of reduce_tree.h for one block of elements, computed in type T. Thread-compatible.
template <typename T>
class BlockTree {
 public:
  using In = const Unaligned<T>*;
  using Out = Unaligned<T>*;

  BlockTree(const Reduction& reduction, absl::Span<const Operand> operands)
      : loops_(LoopsOf<T>(reduction.op)), dtype_(reduction.dtype), operands_(operands) {}

  // Combines elements [first, first + count) of all operands into `out`, in the order of the tree.
  // `out` may be the memory of an operand, because only the last loop writes to it.
  void Combine(size_t first, size_t count, Out out) {
    first_ = first;
    count_ = count;
    Subtree(0, operands_.size(), 0, out);
  }

 private:
  // Returns the values of the subtree over operands [begin, begin + size): the operand itself if it
  // is one that needs no widening, else `into`, where the values are then computed.
  In Values(size_t begin, size_t size, int level, Out into) {
    if (size == 1 && !IsNarrow(begin)) return Leaf(begin);
    Subtree(begin, size, level, into);
    return into;
  }

  // Computes the values of the subtree over operands [begin, begin + size) into `out`.
  void Subtree(size_t begin, size_t size, int level, Out out) {
    COHORT_CHECK(level < kLevelsMax, "at most kRanksMax ranks");
    if (size == 1) return CopyLeaf(begin, out);
    // One loop over four operands reads each operand once, and keeps the order of the tree.
    if (size == 4 && !IsNarrow(begin) && !IsNarrow(begin + 1) && !IsNarrow(begin + 2) &&
        !IsNarrow(begin + 3)) {
      return loops_.four(Leaf(begin), Leaf(begin + 1), Leaf(begin + 2), Leaf(begin + 3), count_,
                         out);
    }
    // The left subtree has the largest power of two of operands below `size`, as in reduce_tree.h.
    const size_t left_size = std::bit_floor(size - 1);
    auto& [left, right] = levels_[static_cast<size_t>(level)];
    const In a = Values(begin, left_size, level + 1, left.data());
    const In b = Values(begin + left_size, size - left_size, level + 1, right.data());
    loops_.two(a, b, count_, out);
  }

  // Returns true if the operand has 16-bit floats, which must be widened before they are combined.
  bool IsNarrow(size_t index) const { return IsHalf(dtype_) && !operands_[index].partial; }
  In Leaf(size_t index) const { return reinterpret_cast<In>(operands_[index].data) + first_; }
  void CopyLeaf(size_t index, Out out) {
    if constexpr (std::is_same_v<T, float>) {
      if (IsNarrow(index)) return Widen(operands_[index].data + 2 * first_, out);
    }
    std::memmove(static_cast<void*>(out), Leaf(index), count_ * sizeof(T));
  }
  void Widen(const std::byte* from, Unaligned<float>* out) {
    std::memcpy(narrow_.data(), from, count_ * sizeof(uint16_t));
    WidenFloats(narrow_.data(), count_, dtype_, wide_.data());
    std::memcpy(static_cast<void*>(out), wide_.data(), count_ * sizeof(float));
  }

  struct Level {
    alignas(64) std::array<Unaligned<T>, kBlockElements> left;
    alignas(64) std::array<Unaligned<T>, kBlockElements> right;
  };

  const ReduceLoops<T>& loops_;
  const DType dtype_;
  const absl::Span<const Operand> operands_;
  size_t first_ = 0;
  size_t count_ = 0;
  std::array<Level, kLevelsMax> levels_;
  alignas(64) std::array<uint16_t, kBlockElements> narrow_;
  // The widened floats, aligned as WidenFloats() needs; `out` of Widen() may lie at any address.
  alignas(64) std::array<float, kBlockElements> wide_;
};

// Divides the sums of a mean. Integers are left alone, because CheckCall() refuses their means.
template <typename T>
void Divide(Unaligned<T>* values, size_t count, int64_t divisor) {
  if constexpr (std::is_same_v<T, float>) DivideFloats(values, count, static_cast<T>(divisor));
  if constexpr (std::is_same_v<T, double>) DivideDoubles(values, count, static_cast<T>(divisor));
}

// Combines the operands block by block, computing in type T. A mean is divided while its block is
// in the cache.
template <typename T>
void CombineAs(const Reduction& reduction, absl::Span<const Operand> operands, size_t count,
               const Result& result) {
  BlockTree<T> tree(reduction, operands);
  for (size_t first = 0; first < count; first += kBlockElements) {
    const size_t block = std::min(kBlockElements, count - first);
    auto* const out = reinterpret_cast<Unaligned<T>*>(result.data) + first;
    tree.Combine(first, block, out);
    if (result.divisor != 1) Divide<T>(out, block, result.divisor);
  }
}

// Combines 16-bit floats block by block, computing in float32. Final results are rounded once,
// after the division of a mean.
void CombineHalf(const Reduction& reduction, absl::Span<const Operand> operands, size_t count,
                 const Result& result) {
  if (result.partial) return CombineAs<float>(reduction, operands, count, result);
  BlockTree<float> tree(reduction, operands);
  alignas(64) std::array<float, kBlockElements> wide;
  alignas(64) std::array<uint16_t, kBlockElements> narrow;
  for (size_t first = 0; first < count; first += kBlockElements) {
    const size_t block = std::min(kBlockElements, count - first);
    auto* const out = reinterpret_cast<Unaligned<float>*>(wide.data());
    tree.Combine(first, block, out);
    if (result.divisor != 1) Divide<float>(out, block, result.divisor);
    NarrowFloats(wide.data(), block, reduction.dtype, narrow.data());
    std::memcpy(result.data + first * sizeof(uint16_t), narrow.data(), block * sizeof(uint16_t));
  }
}

}  // namespace

DType AccumulatorOf(DType dtype) { return IsHalf(dtype) ? DType::kFloat32 : dtype; }

void CombineTree(const Reduction& reduction, absl::Span<const Operand> operands, size_t count,
                 const Result& result) {
  COHORT_CHECK(!operands.empty(), "a reduction has at least one operand");
  switch (reduction.dtype) {
    case DType::kFloat32:
      return CombineAs<float>(reduction, operands, count, result);
    case DType::kFloat64:
      return CombineAs<double>(reduction, operands, count, result);
    case DType::kInt32:
      return CombineAs<int32_t>(reduction, operands, count, result);
    case DType::kInt64:
      return CombineAs<int64_t>(reduction, operands, count, result);
    case DType::kFloat16:
    case DType::kBfloat16:
      return CombineHalf(reduction, operands, count, result);
    default:
      COHORT_CHECK(false, "CheckCall accepts only types that can be reduced");
  }
}

}  // namespace cohort
