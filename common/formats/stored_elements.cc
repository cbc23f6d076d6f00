#include "common/formats/stored_elements.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/status.h"

namespace cohort {

namespace {

using Kind = StoredType::Kind;

constexpr uint64_t kBytesMax = uint64_t{1} << 62;

// Returns true if the tensor has the element type of the file, so that elements differ at most in
// byte order.
bool HasSameElements(const StoredType& type) {
  const DType dtype = DTypeOfStored(type);
  const bool widened = type.kind == Kind::kUnsigned && type.bytes > 1;
  return !widened && ElementSize(dtype) == static_cast<size_t>(type.bytes);
}

void SwapBytes(absl::Span<char> bytes, int width) {
  for (size_t at = 0; at < bytes.size(); at += static_cast<size_t>(width)) {
    std::reverse(bytes.data() + at, bytes.data() + at + width);
  }
}

// Copies elements of the type From into `out`. The wider type of `out` can hold them all, except
// for uint64 values above its largest number, which are refused.
template <typename From, typename To>
absl::Status Widen(absl::Span<const char> bytes, Tensor& out) {
  To* const to = out.mutable_data<To>();
  for (int64_t i = 0; i < out.num_elements(); ++i) {
    From value;
    std::memcpy(&value, bytes.data() + static_cast<size_t>(i) * sizeof(From), sizeof(From));
    if constexpr (sizeof(From) == sizeof(To)) {
      if (value > static_cast<From>(std::numeric_limits<To>::max())) {
        return absl::InvalidArgumentError(
            absl::StrCat("element ", i, " is ", value, ", which is above the largest int64"));
      }
    }
    to[i] = static_cast<To>(value);
  }
  return absl::OkStatus();
}

absl::Status WidenAll(absl::Span<const char> bytes, const StoredType& type, Tensor& out) {
  if (type.bytes == 2) {
    return type.kind == Kind::kSigned ? Widen<int16_t, int32_t>(bytes, out)
                                      : Widen<uint16_t, int32_t>(bytes, out);
  }
  return type.bytes == 4 ? Widen<uint32_t, int64_t>(bytes, out)
                         : Widen<uint64_t, int64_t>(bytes, out);
}

// Reading a bool whose byte is neither 0 nor 1 is undefined in C++, so other bytes are refused.
absl::Status CheckBools(const Tensor& tensor) {
  if (tensor.dtype() != DType::kBool) return absl::OkStatus();
  const std::byte* const begin = tensor.raw();
  const bool valid = std::all_of(begin, begin + tensor.num_bytes(),
                                 [](std::byte byte) { return byte <= std::byte{1}; });
  if (valid) return absl::OkStatus();
  return absl::InvalidArgumentError("a bool is neither 0 nor 1");
}

absl::Status CheckTaken(const StoredType& type) {
  if (DTypeOfStored(type) != DType::kUndefined) return absl::OkStatus();
  static constexpr const char* kNames[] = {"float", "bfloat", "int", "uint", "bool"};
  return absl::UnimplementedError(absl::StrCat(
      "elements of type ", kNames[static_cast<size_t>(type.kind)], type.bytes * 8,
      " are not supported; save them as float16, float32, float64, bool or integers of 8 to 64 "
      "bits"));
}

}  // namespace

DType DTypeOfStored(const StoredType& type) {
  switch (type.kind) {
    case Kind::kFloat:
      if (type.bytes == 2) return DType::kFloat16;
      if (type.bytes == 4) return DType::kFloat32;
      return type.bytes == 8 ? DType::kFloat64 : DType::kUndefined;
    case Kind::kBfloat16:
      return type.bytes == 2 ? DType::kBfloat16 : DType::kUndefined;
    case Kind::kBool:
      return type.bytes == 1 ? DType::kBool : DType::kUndefined;
    case Kind::kSigned:
      if (type.bytes == 1) return DType::kInt8;
      if (type.bytes == 2 || type.bytes == 4) return DType::kInt32;
      return type.bytes == 8 ? DType::kInt64 : DType::kUndefined;
    case Kind::kUnsigned:
      if (type.bytes == 1) return DType::kUint8;
      if (type.bytes == 2) return DType::kInt32;
      return type.bytes == 4 || type.bytes == 8 ? DType::kInt64 : DType::kUndefined;
  }
  return DType::kUndefined;
}

StoredType StoredTypeOf(DType dtype) {
  const int bytes = static_cast<int>(ElementSize(dtype));
  switch (dtype) {
    case DType::kBfloat16:
      return {Kind::kBfloat16, bytes, false};
    case DType::kBool:
      return {Kind::kBool, bytes, false};
    case DType::kUint8:
      return {Kind::kUnsigned, bytes, false};
    case DType::kInt8:
    case DType::kInt32:
    case DType::kInt64:
      return {Kind::kSigned, bytes, false};
    default:
      return {Kind::kFloat, bytes, false};
  }
}

absl::StatusOr<uint64_t> StoredBytes(absl::Span<const int64_t> dims, int element_bytes) {
  if (dims.size() > kStoredRankMax) {
    return absl::InvalidArgumentError(
        absl::StrCat(dims.size(), " axes are above ", kStoredRankMax));
  }
  // Axes of size 0 are left out of the product, so that it bounds every partial product too.
  uint64_t bytes = static_cast<uint64_t>(element_bytes);
  bool empty = false;
  for (const int64_t dim : dims) {
    if (dim < 0) return absl::InvalidArgumentError(absl::StrCat("size ", dim, " along an axis"));
    empty = empty || dim == 0;
    if (dim == 0) continue;
    if (bytes > kBytesMax / static_cast<uint64_t>(dim)) {
      return absl::InvalidArgumentError(
          absl::StrCat("shape ", Shape(dims).ToString(), " has more than 2^62 bytes"));
    }
    bytes *= static_cast<uint64_t>(dim);
  }
  return empty ? 0 : bytes;
}

absl::StatusOr<Tensor> DecodeElements(absl::Span<const char> bytes, const StoredType& type,
                                      const Shape& shape) {
  RETURN_IF_ERROR(CheckTaken(type));
  ASSIGN_OR_RETURN(const uint64_t needed, StoredBytes(shape.dims(), type.bytes));
  if (bytes.size() != needed) {
    return absl::InvalidArgumentError(
        absl::StrCat(bytes.size(), " bytes where shape ", shape.ToString(), " needs ", needed));
  }
  std::vector<char> swapped;
  if (type.big_endian && type.bytes > 1) {
    swapped.assign(bytes.begin(), bytes.end());
    SwapBytes(absl::MakeSpan(swapped), type.bytes);
    bytes = swapped;
  }
  Tensor tensor(DTypeOfStored(type), shape);
  if (bytes.empty()) return tensor;
  if (!HasSameElements(type)) {
    RETURN_IF_ERROR(WidenAll(bytes, type, tensor));
    return tensor;
  }
  std::memcpy(tensor.mutable_raw(), bytes.data(), bytes.size());
  RETURN_IF_ERROR(CheckBools(tensor));
  return tensor;
}

absl::StatusOr<Tensor> ReadElements(const ReadableFile& file, uint64_t offset,
                                    const StoredType& type, const Shape& shape) {
  RETURN_IF_ERROR(CheckTaken(type));
  ASSIGN_OR_RETURN(const uint64_t bytes, StoredBytes(shape.dims(), type.bytes));
  if (bytes > file.size() || offset > file.size() - bytes) {
    return absl::OutOfRangeError(absl::StrCat(bytes, " bytes at ", offset,
                                              " are beyond the end of ", file.size(), " bytes"));
  }
  if (!HasSameElements(type)) {
    std::vector<char> stored(bytes);
    RETURN_IF_ERROR(file.Read(offset, absl::MakeSpan(stored)));
    return DecodeElements(stored, type, shape);
  }
  Tensor tensor(DTypeOfStored(type), shape);
  if (bytes == 0) return tensor;
  const absl::Span<char> out(reinterpret_cast<char*>(tensor.mutable_raw()), bytes);
  RETURN_IF_ERROR(file.Read(offset, out));
  if (type.big_endian && type.bytes > 1) SwapBytes(out, type.bytes);
  RETURN_IF_ERROR(CheckBools(tensor));
  return tensor;
}

absl::Status MalformedFile(absl::string_view path, absl::string_view what) {
  return absl::DataLossError(absl::StrCat(path, ": ", what, "; take an intact copy of the file"));
}

}  // namespace cohort
