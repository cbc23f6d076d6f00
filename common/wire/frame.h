#pragma once

// The one codec of the messages of calls. A frame is
//
//   A  the header: a proto's fields without its payload
//   B  tag of field 1000, length-delimited: c2 3e        \  only when the payload
//   C  length of the payload, varint                     |  has bytes
//   D  the payload                                       /
//
// or, if bytes may change on the way, has a checksum between A and B:
//
//   S  field 999, fixed32: bd 3e, then the CRC-32C of A and D
//
// A frame has the bytes of a protobuf message: of the declared proto, whose last field is `bytes
// payload = 1000`. So any protobuf program can read and write frames. Encoding does not copy D.
// Decoding copies A only and returns D as slices of the memory that was received.

#include <cstddef>

#include "absl/status/statusor.h"
#include "common/wire/frame_limits.h"
#include "common/wire/message.h"

namespace cohort {

// Encodes a message as a frame, whose first slice holds all bytes before the payload. Errors:
// RESOURCE_EXHAUSTED for a message over `bytes_max`.
absl::StatusOr<Payload> EncodeFrame(Message message, size_t bytes_max);
// Encodes a message as a frame with the checksum S of header and payload. Errors: those of
// EncodeFrame.
absl::StatusOr<Payload> EncodeCheckedFrame(Message message, size_t bytes_max);

// Decodes a frame by walking its top-level fields. Errors: MalformedMessage if the bytes are not a
// protobuf message, if the payload (field 1000) is not last or not unique, or if the frame has a
// checksum S that differs; RESOURCE_EXHAUSTED for a message over `bytes_max` or a header over
// kHeaderBytesMax.
absl::StatusOr<Message> DecodeFrame(const Payload& frame, size_t bytes_max);

}  // namespace cohort
