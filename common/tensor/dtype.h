#pragma once

// Element types of tensors. The numbers are those of onnx.TensorProto.DataType, so that messages,
// programs and kernels use the same number for a type.

#include <cstddef>
#include <cstdint>
#include <type_traits>

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

// Returns the number of bytes of one element, or 0 for kUndefined.
size_t ElementSize(DType dtype);
// Returns NumPy's name of the type, such as "float32", "int64" or "bool".
absl::string_view DTypeName(DType dtype);
// Returns the element type with the given number or NumPy name. Errors: INVALID_ARGUMENT for a
// number or a name that no element type has.
absl::StatusOr<DType> DTypeFromNumber(int32_t number);
absl::StatusOr<DType> DTypeFromName(absl::string_view name);

template <typename T>
struct DTypeOf;
template <>
struct DTypeOf<float> : std::integral_constant<DType, DType::kFloat32> {};
template <>
struct DTypeOf<double> : std::integral_constant<DType, DType::kFloat64> {};
template <>
struct DTypeOf<int32_t> : std::integral_constant<DType, DType::kInt32> {};
template <>
struct DTypeOf<int64_t> : std::integral_constant<DType, DType::kInt64> {};
template <>
struct DTypeOf<uint8_t> : std::integral_constant<DType, DType::kUint8> {};
template <>
struct DTypeOf<int8_t> : std::integral_constant<DType, DType::kInt8> {};
template <>
struct DTypeOf<bool> : std::integral_constant<DType, DType::kBool> {};

}  // namespace cohort
