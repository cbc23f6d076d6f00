#include "common/checkpoint/string_tensor.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/crc32c.h"

namespace cohort {

namespace {

constexpr size_t kChecksumBytes = 4;
constexpr int kVarintBytesMax = 10;

// Takes a varint from the front of `bytes`. Returns false if there is none.
bool TakeVarint(absl::string_view& bytes, uint64_t& value) {
  value = 0;
  for (int i = 0; i < kVarintBytesMax && !bytes.empty(); ++i) {
    const uint64_t byte = static_cast<unsigned char>(bytes.front());
    bytes.remove_prefix(1);
    value |= (byte & 0x7f) << (7 * i);
    if (byte < 0x80) return true;
  }
  return false;
}

// Extends a checksum by a number in little-endian order.
uint32_t ExtendBy(uint32_t crc, uint64_t value, size_t bytes) {
  std::string text;
  for (size_t i = 0; i < bytes; ++i) text.push_back(static_cast<char>(value >> (8 * i)));
  return ExtendCrc32c(crc, text);
}

}  // namespace

absl::StatusOr<std::vector<std::string>> DecodeStringTensor(absl::string_view bytes, int64_t count,
                                                            uint32_t crc32c) {
  // A string has a length of one byte at least, so the count needs no other bound.
  if (count < 0 || static_cast<uint64_t>(count) > bytes.size()) {
    return absl::InvalidArgumentError(absl::StrCat(count, " strings in ", bytes.size(), " bytes"));
  }
  std::vector<uint64_t> lengths;
  uint32_t crc = 0;
  for (int64_t i = 0; i < count; ++i) {
    uint64_t length = 0;
    if (!TakeVarint(bytes, length) || length > bytes.size()) {
      return absl::InvalidArgumentError("a string beyond the end of its tensor");
    }
    lengths.push_back(length);
    // TensorFlow's checksum takes lengths as numbers of 32 bits, if they fit.
    crc = ExtendBy(crc, length, length > UINT32_MAX ? 8 : 4);
  }
  if (bytes.size() < kChecksumBytes) return absl::InvalidArgumentError("no checksum of lengths");
  uint32_t masked = 0;
  for (size_t i = 0; i < kChecksumBytes; ++i) {
    masked |= static_cast<uint32_t>(static_cast<unsigned char>(bytes[i])) << (8 * i);
  }
  if (masked != MaskCrc32c(crc)) return absl::InvalidArgumentError("wrong checksum of lengths");
  crc = ExtendBy(crc, masked, kChecksumBytes);
  bytes.remove_prefix(kChecksumBytes);
  std::vector<std::string> strings;
  for (const uint64_t length : lengths) {
    if (length > bytes.size()) return absl::InvalidArgumentError("strings beyond their tensor");
    strings.emplace_back(bytes.substr(0, length));
    bytes.remove_prefix(length);
    crc = ExtendCrc32c(crc, strings.back());
  }
  if (!bytes.empty()) return absl::InvalidArgumentError("bytes behind the last string");
  if (crc != crc32c) return absl::InvalidArgumentError("wrong checksum");
  return strings;
}

EncodedString EncodeStringTensor(absl::string_view text) {
  EncodedString encoded;
  uint64_t length = text.size();
  for (; length >= 0x80; length >>= 7) encoded.bytes.push_back(static_cast<char>(length | 0x80));
  encoded.bytes.push_back(static_cast<char>(length));
  const uint32_t of_lengths = ExtendBy(0, text.size(), text.size() > UINT32_MAX ? 8 : 4);
  const uint32_t masked = MaskCrc32c(of_lengths);
  for (size_t i = 0; i < kChecksumBytes; ++i) {
    encoded.bytes.push_back(static_cast<char>(masked >> (8 * i)));
  }
  encoded.bytes.append(text.data(), text.size());
  encoded.crc32c = ExtendCrc32c(ExtendBy(of_lengths, masked, kChecksumBytes), text);
  return encoded;
}

}  // namespace cohort
