#pragma once

// The prefix of each LocalFrame on its socket (proto/local.proto):
//
//   A  the frame's length, four bytes, the lowest first
//   B  CRC-32C of the frame    \  four bytes like A; only on connections
//   C  CRC-32C of A and B      /  with checksums, such as those over TCP
//
// A reader checks C before it waits for the frame: a length that changed on the way could otherwise
// make the reader wait for bytes that never come. Internal to common/wire.

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
  bool intact = true;  // whether the prefix's own CRC (C) is right
};
size_t FramePrefixBytes(FrameSums sums);
// Reads the prefix at the start of `bytes`, which must have at least FramePrefixBytes.
FramePrefix ReadFramePrefix(absl::string_view bytes, FrameSums sums);

// Returns a frame's prefix followed by the serialized frame.
std::string WithPrefix(const proto::LocalFrame& frame, FrameSums sums);

}  // namespace cohort
