#include "common/checkpoint/bundle_format.h"

#include <array>
#include <iterator>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/base/excerpt.h"
#include "common/checkpoint/bundle.h"

namespace cohort {

namespace {

struct TypeNumber {
  DType dtype;
  int32_t number;
};

constexpr std::array<TypeNumber, 9> kTypeNumbers = {{{DType::kFloat32, 1},
                                                     {DType::kFloat64, 2},
                                                     {DType::kInt32, 3},
                                                     {DType::kUint8, 4},
                                                     {DType::kInt8, 6},
                                                     {DType::kInt64, 9},
                                                     {DType::kBool, 10},
                                                     {DType::kBfloat16, 14},
                                                     {DType::kFloat16, 19}}};

// Appends the number of bytes that `value` has without leading zero bytes, and then these bytes,
// the most significant first.
void AppendOrderedUnsigned(uint64_t value, std::string& out) {
  std::string bytes;
  for (; value > 0; value >>= 8) bytes.insert(bytes.begin(), static_cast<char>(value & 0xff));
  out.push_back(static_cast<char>(bytes.size()));
  out += bytes;
}

// Appends `text` with an escape byte after each zero byte and each 0xff byte, and then the
// terminator 00 01. So a text sorts before its own continuations.
void AppendOrderedString(absl::string_view text, std::string& out) {
  for (char c : text) {
    out.push_back(c);
    if (c == '\0') out.push_back('\xff');
    if (c == '\xff') out.push_back('\0');
  }
  out.append("\0\x01", 2);
}

// Appends a signed number as TensorFlow's OrderedCode does: in two's complement, big endian, in n
// bytes. n is the smallest number for which the first n + 1 bits all equal the sign. The first n
// bits are then inverted, so the number of equal bits at the beginning tells n.
void AppendOrderedSigned(int64_t value, std::string& out) {
  uint64_t magnitude = static_cast<uint64_t>(value < 0 ? ~value : value);
  int bits = 0;
  for (; magnitude > 0; magnitude >>= 1) ++bits;
  const int length = bits / 7 + 1;
  std::array<unsigned char, 10> bytes;
  for (int i = 0; i < 10; ++i) {
    const int shift = 8 * (9 - i);
    // In C++, a shift by 64 or more is undefined, so a byte beyond the 64 bits of `value` is made
    // from the sign.
    const int64_t shifted = shift >= 64 ? (value < 0 ? -1 : 0) : value >> shift;
    bytes[static_cast<size_t>(i)] = static_cast<unsigned char>(shifted & 0xff);
  }
  const size_t begin = static_cast<size_t>(10 - length);
  for (int bit = 0; bit < length; ++bit) {
    bytes[begin + static_cast<size_t>(bit / 8)] ^= static_cast<unsigned char>(0x80 >> (bit % 8));
  }
  out.append(reinterpret_cast<const char*>(bytes.data()) + begin, static_cast<size_t>(length));
}

}  // namespace

std::string DataShardPath(const std::string& prefix, int shard, int num_shards) {
  return absl::StrFormat("%s.data-%05d-of-%05d", prefix, shard, num_shards);
}

std::string IndexPath(const std::string& prefix) { return absl::StrCat(prefix, ".index"); }

int32_t TensorFlowDType(DType dtype) {
  for (const TypeNumber& type : kTypeNumbers) {
    if (type.dtype == dtype) return type.number;
  }
  return 0;
}

DType DTypeFromTensorFlow(int32_t number) {
  for (const TypeNumber& type : kTypeNumbers) {
    if (type.number == number) return type.dtype;
  }
  return DType::kUndefined;
}

std::string TensorFlowTypeName(int32_t number) {
  // In the order of tensorflow.DataType, from 1 on.
  static constexpr const char* kNames[] = {
      "float32", "float64",    "int32",   "uint8",    "int16",   "int8",     "string", "complex64",
      "int64",   "bool",       "qint8",   "quint8",   "qint32",  "bfloat16", "qint16", "quint16",
      "uint16",  "complex128", "float16", "resource", "variant", "uint32",   "uint64"};
  if (number >= 1 && number <= static_cast<int32_t>(std::size(kNames))) return kNames[number - 1];
  return absl::StrCat("type ", number);
}

std::string SliceKey(absl::string_view tensor, const proto::BundleSlice& slice) {
  std::string key;
  AppendOrderedUnsigned(0, key);
  AppendOrderedString(tensor, key);
  AppendOrderedUnsigned(static_cast<uint64_t>(slice.extent_size()), key);
  for (const proto::BundleSlice::Extent& extent : slice.extent()) {
    // TensorFlow encodes an axis that is not cut as start 0 and length -1.
    const bool everything =
        extent.has_length_case() == proto::BundleSlice::Extent::HAS_LENGTH_NOT_SET;
    AppendOrderedSigned(everything ? 0 : extent.start(), key);
    AppendOrderedSigned(everything ? -1 : extent.length(), key);
  }
  return key;
}

absl::Status CheckTensorName(absl::string_view name) {
  if (name.empty() || name[0] == '\0') {
    return absl::InvalidArgumentError(absl::StrCat(
        "tensor name '", Excerpt(name), "' is empty or begins with a zero byte; rename it"));
  }
  return absl::OkStatus();
}

absl::Status DamagedFile(const std::string& path, absl::string_view what) {
  return absl::DataLossError(absl::StrCat(
      path, ": ", what, "; restore from an older checkpoint or from a copy of this file"));
}

absl::Status CheckNotComplete(FileSystem& files, const std::string& prefix) {
  const absl::Status status = files.Open(IndexPath(prefix)).status();
  if (absl::IsNotFound(status)) return absl::OkStatus();
  // After any error except NOT_FOUND, nobody knows whether the checkpoint is complete, so the
  // caller gets the error and must not write to the checkpoint.
  RETURN_IF_ERROR(status);
  return absl::AlreadyExistsError(absl::StrCat("checkpoint ", prefix,
                                               " is complete and is not written again; save "
                                               "under another prefix or delete it first"));
}

absl::StatusOr<int64_t> CheckedBytes(DType dtype, absl::Span<const int64_t> dims) {
  constexpr int64_t kBytesMax = int64_t{1} << 62;
  if (dims.size() > static_cast<size_t>(kBundleRankMax)) {
    return absl::InvalidArgumentError(
        absl::StrCat("rank ", dims.size(), " is above ", kBundleRankMax));
  }
  // The check multiplies all sizes except zeros. Even if axis 0 has the size 0,
  // Shape::row_elements() multiplies the sizes of the other axes, and must not overflow.
  int64_t bytes = static_cast<int64_t>(ElementSize(dtype));
  bool empty = false;
  for (int64_t dim : dims) {
    if (dim < 0) return absl::InvalidArgumentError(absl::StrCat("negative extent ", dim));
    empty = empty || dim == 0;
    if (dim > 0 && bytes > kBytesMax / dim) {
      return absl::InvalidArgumentError("more than 2^62 bytes");
    }
    if (dim > 0) bytes *= dim;
  }
  return empty ? 0 : bytes;
}

}  // namespace cohort
