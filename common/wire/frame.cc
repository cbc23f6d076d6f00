#include "common/wire/frame.h"

#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/types/optional.h"
#include "common/base/crc32c.h"
#include "common/base/status.h"
#include "common/wire/error_detail.h"
#include "common/wire/message.h"
#include "common/wire/method_table.h"

namespace cohort {

namespace {

constexpr uint64_t kPayloadField = 1000;
constexpr uint64_t kPayloadTag = kPayloadField << 3 | 2;
constexpr uint64_t kSumField = 999;
constexpr uint64_t kSumTag = kSumField << 3 | 5;
constexpr size_t kSumBytes = sizeof(uint32_t);
// The longest varint. Each byte carries 7 bits, so 64 bits take at most 10 bytes.
constexpr int kVarintBytesMax = 10;

enum WireType : uint64_t { kVarint = 0, kFixed64 = 1, kLengthDelimited = 2, kFixed32 = 5 };

void AppendVarint(std::string& out, uint64_t value) {
  while (value >= 0x80) {
    out.push_back(static_cast<char>(value | 0x80));
    value >>= 7;
  }
  out.push_back(static_cast<char>(value));
}

// Reads the bytes of a frame in order. A frame consists of slices, whose borders may lie anywhere.
// Thread-compatible.
class Cursor {
 public:
  explicit Cursor(const Payload& frame) : frame_(frame), left_(PayloadBytes(frame)) {}

  size_t left() const { return left_; }

  // Reads a varint. Returns false if the frame ends first or the number has more than 64 bits.
  bool ReadVarint(uint64_t& value) {
    value = 0;
    for (int i = 0; i < kVarintBytesMax && left_ > 0; ++i) {
      const uint64_t byte = NextByte();
      // The tenth byte of a varint holds bit 63 alone; a value above 1 would overflow 64 bits.
      if (i == kVarintBytesMax - 1 && byte > 1) return false;
      value |= (byte & 0x7f) << (7 * i);
      if (byte < 0x80) return true;
    }
    return false;
  }

  bool Skip(uint64_t count) {
    // `count` is compared before it is subtracted, because a peer may send any 64-bit length.
    if (count > left_) return false;
    left_ -= count;
    while (count > 0) {
      const size_t step = std::min<uint64_t>(count, frame_[slice_].size - offset_);
      count -= step;
      offset_ += step;
      if (offset_ == frame_[slice_].size) NextSlice();
    }
    return true;
  }

  // Reads four bytes as a little-endian number. Returns false if fewer than four bytes are left.
  bool ReadFixed32(uint32_t& value) {
    if (left_ < kSumBytes) return false;
    value = 0;
    for (size_t i = 0; i < kSumBytes; ++i) value |= static_cast<uint32_t>(NextByte()) << (8 * i);
    return true;
  }

  // Returns the bytes of the frame after the cursor, without copying them.
  Payload Rest() const {
    Payload rest;
    rest.reserve(frame_.size() - slice_);
    for (size_t i = slice_; i < frame_.size(); ++i) {
      const size_t begin = i == slice_ ? offset_ : 0;
      if (frame_[i].size == begin) continue;
      rest.push_back({frame_[i].owner, frame_[i].data + begin, frame_[i].size - begin});
    }
    return rest;
  }

 private:
  void NextSlice() {
    ++slice_;
    offset_ = 0;
  }

  uint64_t NextByte() {
    while (offset_ == frame_[slice_].size) NextSlice();
    --left_;
    return std::to_integer<uint64_t>(frame_[slice_].data[offset_++]);
  }

  const Payload& frame_;
  size_t left_;
  size_t slice_ = 0;
  size_t offset_ = 0;
};

// Moves the cursor past the value of a field. Returns false if the frame ends before the value
// does, or for an unknown wire type.
bool SkipField(Cursor& cursor, uint64_t wire_type) {
  uint64_t value = 0;
  switch (wire_type) {
    case kVarint:
      return cursor.ReadVarint(value);
    case kFixed64:
      return cursor.Skip(8);
    case kFixed32:
      return cursor.Skip(4);
    case kLengthDelimited:
      return cursor.ReadVarint(value) && cursor.Skip(value);
    default:
      return false;  // proto3 has no groups, and so no other wire type
  }
}

absl::Status Malformed(size_t position, absl::string_view what) {
  return MalformedMessage(absl::StrCat("malformed message at byte ", position, ": ", what));
}

// Returns a copy of the first `count` bytes of the frame.
std::string CopyFront(const Payload& frame, size_t count) {
  std::string out;
  out.reserve(count);
  for (const ByteSlice& slice : frame) {
    const size_t step = std::min(count - out.size(), slice.size);
    if (step > 0) out.append(reinterpret_cast<const char*>(slice.data), step);
    if (out.size() == count) break;
  }
  return out;
}

// Returns the checksum S of a message: the CRC-32C of header and payload together.
uint32_t SumOf(absl::string_view header, const Payload& payload) {
  return ExtendCrc32c(Crc32c(header), payload);
}

void AppendSum(std::string& out, uint32_t sum) {
  AppendVarint(out, kSumTag);
  for (size_t i = 0; i < kSumBytes; ++i) out.push_back(static_cast<char>(sum >> (8 * i)));
}

// Encodes a message as a frame. The frame gets `sum` as its checksum S (frame.h) if `sum` is set.
absl::StatusOr<Payload> Encode(Message message, size_t bytes_max, absl::optional<uint32_t> sum) {
  RETURN_IF_ERROR(CheckSize(message, bytes_max));
  const size_t payload_bytes = PayloadBytes(message.payload);
  if (sum.has_value()) AppendSum(message.header, *sum);
  if (payload_bytes > 0) {
    AppendVarint(message.header, kPayloadTag);
    AppendVarint(message.header, payload_bytes);
  } else {
    message.payload.clear();
  }
  Payload frame;
  frame.reserve(1 + message.payload.size());
  // The checksum, and the payload's tag and length, were appended to the header, so one slice holds
  // all bytes before the payload.
  auto head = std::make_shared<const std::string>(std::move(message.header));
  const auto* data = reinterpret_cast<const std::byte*>(head->data());
  const size_t size = head->size();
  frame.push_back({std::move(head), data, size});
  for (ByteSlice& slice : message.payload) {
    if (slice.size > 0) frame.push_back(std::move(slice));
  }
  return frame;
}

}  // namespace

absl::StatusOr<Payload> EncodeFrame(Message message, size_t bytes_max) {
  return Encode(std::move(message), bytes_max, absl::nullopt);
}

absl::StatusOr<Payload> EncodeCheckedFrame(Message message, size_t bytes_max) {
  const uint32_t sum = SumOf(message.header, message.payload);
  return Encode(std::move(message), bytes_max, sum);
}

absl::StatusOr<Message> DecodeFrame(const Payload& frame, size_t bytes_max) {
  Cursor cursor(frame);
  const size_t total = cursor.left();
  size_t header_bytes = total;
  absl::optional<uint32_t> sum;
  // Finds where the header ends: at the checksum, at the payload's tag, or at the end of the frame.
  while (cursor.left() > 0) {
    const size_t field_begin = total - cursor.left();
    uint64_t tag = 0;
    if (!cursor.ReadVarint(tag) || tag >> 3 == 0 || tag > UINT32_MAX) {
      return Malformed(field_begin, "no field tag");
    }
    if (tag == kSumTag && !sum.has_value()) {
      if (!cursor.ReadFixed32(sum.emplace())) return Malformed(field_begin, "half a sum");
      // The header ends before the checksum S. Only the payload may follow the checksum.
      header_bytes = field_begin;
      continue;
    }
    if (tag == kPayloadTag) {
      uint64_t length = 0;
      if (!cursor.ReadVarint(length) || length != cursor.left()) {
        return Malformed(field_begin, "the payload does not end with the message");
      }
      header_bytes = std::min(header_bytes, field_begin);
      break;
    }
    const bool behind_the_sum = sum.has_value();
    if (behind_the_sum || tag >> 3 == kPayloadField || !SkipField(cursor, tag & 7)) {
      return Malformed(field_begin, absl::StrCat("field ", tag >> 3));
    }
  }
  // The limits of size are checked before the header is copied, so that a peer cannot make this
  // process copy more.
  const size_t bytes = header_bytes + cursor.left();
  if (bytes > bytes_max || header_bytes > kHeaderBytesMax) {
    return absl::ResourceExhaustedError(
        absl::StrCat("a message of ", bytes, " bytes, of which header ", header_bytes, "; at most ",
                     bytes_max, " and ", kHeaderBytesMax));
  }
  Message message{CopyFront(frame, header_bytes), cursor.Rest()};
  if (sum.has_value() && SumOf(message.header, message.payload) != *sum) {
    return Malformed(header_bytes, "its CRC-32C differs: bytes changed on the way");
  }
  return message;
}

}  // namespace cohort
