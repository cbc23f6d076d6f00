#pragma once

// What is before each LocalFrame on its socket (proto/local.proto):
//
//   A  the frame's length, four bytes with the lowest first
//   B  CRC-32C of the frame    \  as A; only where frames have sums,
//   C  CRC-32C of A and B      /  which is over TCP
//
// C is looked at before anything is waited for: a length that changed on the way could otherwise
// keep a reader waiting for bytes that never come. Internal to common/wire.

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
// `bytes` has at least FramePrefixBytes.
FramePrefix ReadFramePrefix(absl::string_view bytes, FrameSums sums);

// The frame behind its prefix.
std::string WithPrefix(const proto::LocalFrame& frame, FrameSums sums);

}  // namespace cohort
