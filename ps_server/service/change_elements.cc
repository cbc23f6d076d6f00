#include "ps_server/service/change_elements.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <type_traits>

namespace cohort {
namespace {

// Whole numbers are added as unsigned ones: a peer's numbers must not be undefined behaviour.
template <typename T>
using Wrapping = typename std::conditional_t<std::is_integral_v<T>, std::make_unsigned<T>,
                                             std::type_identity<T>>::type;

template <typename T>
T Divided(T a, T b) {
  if constexpr (std::is_integral_v<T>) {
    if (b == 0) return a;
    if (b == -1) return static_cast<T>(0 - static_cast<Wrapping<T>>(a));
  }
  return a / b;
}

template <typename T, typename Op>
void ForEach(T* value, const T* operand, size_t count, Op op) {
  for (size_t i = 0; i < count; ++i) value[i] = op(value[i], operand[i]);
}

template <typename T>
void Change(proto::ChangeOp op, T* value, const T* operand, size_t count) {
  using U = Wrapping<T>;
  const auto wrapping = [](auto f) {
    return [f](T a, T b) { return static_cast<T>(f(static_cast<U>(a), static_cast<U>(b))); };
  };
  switch (op) {
    case proto::CHANGE_ADD:
      return ForEach(value, operand, count, wrapping([](U a, U b) { return a + b; }));
    case proto::CHANGE_SUB:
      return ForEach(value, operand, count, wrapping([](U a, U b) { return a - b; }));
    case proto::CHANGE_MUL:
      return ForEach(value, operand, count, wrapping([](U a, U b) { return a * b; }));
    case proto::CHANGE_DIV:
      return ForEach(value, operand, count, Divided<T>);
    case proto::CHANGE_MIN:
      return ForEach(value, operand, count, [](T a, T b) { return std::min(a, b); });
    case proto::CHANGE_MAX:
      return ForEach(value, operand, count, [](T a, T b) { return std::max(a, b); });
    default:
      std::memcpy(value, operand, count * sizeof(T));
  }
}

template <typename T>
void ChangeAs(proto::ChangeOp op, std::byte* value, const std::byte* operand, size_t bytes) {
  Change(op, reinterpret_cast<T*>(value), reinterpret_cast<const T*>(operand), bytes / sizeof(T));
}

}  // namespace

void ChangeElements(proto::ChangeOp op, DType dtype, std::byte* value, const std::byte* operand,
                    size_t bytes) {
  if (dtype == DType::kInt32) return ChangeAs<int32_t>(op, value, operand, bytes);
  if (dtype == DType::kInt64) return ChangeAs<int64_t>(op, value, operand, bytes);
  ChangeAs<float>(op, value, operand, bytes);
}

}  // namespace cohort
