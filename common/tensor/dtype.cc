#include "common/tensor/dtype.h"

#include <array>

#include "absl/strings/str_cat.h"

namespace cohort {

namespace {

// An element type with its size in bytes and its NumPy name.
struct Entry {
  DType dtype;
  size_t size;
  absl::string_view name;
};

constexpr std::array<Entry, 9> kEntries = {{{DType::kFloat32, 4, "float32"},
                                            {DType::kUint8, 1, "uint8"},
                                            {DType::kInt8, 1, "int8"},
                                            {DType::kInt32, 4, "int32"},
                                            {DType::kInt64, 8, "int64"},
                                            {DType::kBool, 1, "bool"},
                                            {DType::kFloat16, 2, "float16"},
                                            {DType::kFloat64, 8, "float64"},
                                            {DType::kBfloat16, 2, "bfloat16"}}};

}  // namespace

size_t ElementSize(DType dtype) {
  for (const Entry& entry : kEntries) {
    if (entry.dtype == dtype) return entry.size;
  }
  return 0;
}

absl::string_view DTypeName(DType dtype) {
  for (const Entry& entry : kEntries) {
    if (entry.dtype == dtype) return entry.name;
  }
  return "undefined";
}

absl::StatusOr<DType> DTypeFromNumber(int32_t number) {
  for (const Entry& entry : kEntries) {
    if (static_cast<int32_t>(entry.dtype) == number) return entry.dtype;
  }
  return absl::InvalidArgumentError(absl::StrCat("element type ", number, " is not supported"));
}

absl::StatusOr<DType> DTypeFromName(absl::string_view name) {
  for (const Entry& entry : kEntries) {
    if (entry.name == name) return entry.dtype;
  }
  return absl::InvalidArgumentError(absl::StrCat("element type '", name, "' is not supported"));
}

}  // namespace cohort
