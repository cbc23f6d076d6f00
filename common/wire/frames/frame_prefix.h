#pragma once

// The bytes that precede each LocalFrame on its socket (proto/local.proto):
//
//   A  the frame's length, four bytes with the lowest first
//   B  CRC-32C of the frame    \  as A; only on connections with sums,
//   C  CRC-32C of A and B      /  which are those over TCP
//
// C is checked before anything is waited for: a length that changed on the way could otherwise keep
// a reader waiting for bytes that never come. Internal to common/wire.

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"
#include "proto/local.pb.h"

namespace cohort {

enum class FrameSums { kNone, kCrc32c };

struct FramePrefix {
  size_t frame_bytes = 0;
  uint32_t frame_crc = 0;
  bool intact = true;  // what C says
};
size_t FramePrefixBytes(FrameSums sums);
// Reads a prefix; `bytes` has at least FramePrefixBytes.
FramePrefix ReadFramePrefix(absl::string_view bytes, FrameSums sums);

// Returns the frame with its prefix before it.
std::string WithPrefix(const proto::LocalFrame& frame, FrameSums sums);

}  // namespace cohort
