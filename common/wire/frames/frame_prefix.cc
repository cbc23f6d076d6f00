#include "common/wire/frames/frame_prefix.h"

#include "common/base/crc32c.h"

namespace cohort {

namespace {

constexpr size_t kNumberBytes = 4;
// The number of bytes that the prefix's last CRC covers: the frame's length and the frame's CRC.
constexpr size_t kSummedBytes = 2 * kNumberBytes;

void PutNumber(uint32_t number, char* out) {
  for (size_t i = 0; i < kNumberBytes; ++i) out[i] = static_cast<char>(number >> (8 * i));
}

uint32_t NumberAt(const char* bytes) {
  uint32_t number = 0;
  for (size_t i = 0; i < kNumberBytes; ++i) {
    number |= static_cast<uint32_t>(static_cast<unsigned char>(bytes[i])) << (8 * i);
  }
  return number;
}

}  // namespace

size_t FramePrefixBytes(FrameSums sums) {
  return sums == FrameSums::kNone ? kNumberBytes : kSummedBytes + kNumberBytes;
}

FramePrefix ReadFramePrefix(absl::string_view bytes, FrameSums sums) {
  FramePrefix prefix;
  prefix.frame_bytes = NumberAt(bytes.data());
  if (sums == FrameSums::kNone) return prefix;
  prefix.frame_crc = NumberAt(bytes.data() + kNumberBytes);
  prefix.intact = NumberAt(bytes.data() + kSummedBytes) == Crc32c(bytes.substr(0, kSummedBytes));
  return prefix;
}

std::string WithPrefix(const proto::LocalFrame& frame, FrameSums sums) {
  const size_t prefix_bytes = FramePrefixBytes(sums);
  // The frame is serialized behind empty bytes that the prefix fills later, so that the frame need
  // not be copied.
  std::string bytes(prefix_bytes, '\0');
  frame.AppendToString(&bytes);
  const absl::string_view body = absl::string_view(bytes).substr(prefix_bytes);
  PutNumber(static_cast<uint32_t>(body.size()), bytes.data());
  if (sums == FrameSums::kNone) return bytes;
  PutNumber(Crc32c(body), bytes.data() + kNumberBytes);
  PutNumber(Crc32c(absl::string_view(bytes).substr(0, kSummedBytes)), bytes.data() + kSummedBytes);
  return bytes;
}

}  // namespace cohort
