#pragma once

// Element types, numbered as onnx.TensorProto.DataType numbers them, so that wire, programs and
// kernels agree.

#include <cstddef>
#include <cstdint>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace cohort {

enum class DType : int32_t {
  kUndefined = 0,
  kFloat32 = 1,
  kUint8 = 2,
  kInt8 = 3,
  kInt32 = 6,
  kInt64 = 7,
  kBool = 9,
  kFloat16 = 10,
  kFloat64 = 11,
  kBfloat16 = 16,
};

// Bytes of one element; 0 for kUndefined.
size_t ElementSize(DType dtype);
// Returns NumPy's name: "float32", "int64", "bool".
absl::string_view DTypeName(DType dtype);
// Errors: INVALID_ARGUMENT for a number or a name that is none of the above.
absl::StatusOr<DType> DTypeFromNumber(int32_t number);
absl::StatusOr<DType> DTypeFromName(absl::string_view name);

template <typename T>
struct DTypeOf;
template <>
struct DTypeOf<float> {
  static constexpr DType value = DType::kFloat32;
};
template <>
struct DTypeOf<double> {
  static constexpr DType value = DType::kFloat64;
};
template <>
struct DTypeOf<int32_t> {
  static constexpr DType value = DType::kInt32;
};
template <>
struct DTypeOf<int64_t> {
  static constexpr DType value = DType::kInt64;
};
template <>
struct DTypeOf<uint8_t> {
  static constexpr DType value = DType::kUint8;
};
template <>
struct DTypeOf<int8_t> {
  static constexpr DType value = DType::kInt8;
};
template <>
struct DTypeOf<bool> {
  static constexpr DType value = DType::kBool;
};

}  // namespace cohort
