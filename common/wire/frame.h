#pragma once

// The one codec of a call's message. A frame is
//
//   A  the header: a proto's fields without its payload
//   B  tag of field 1000, length-delimited: c2 3e        \  only when the payload
//   C  length of the payload, varint                     |  has bytes
//   D  the payload                                       /
//
// or, where bytes may change on the way, with a sum between A and B:
//
//   S  field 999, fixed32: bd 3e, then the CRC-32C of A and D
//
// which are the bytes of the declared proto with `bytes payload = 1000` as last field, so any
// protobuf program can read and write them. Encoding copies none of D; decoding copies A alone and
// hands D on as slices of what was received.

#include <cstddef>

#include "absl/status/statusor.h"
#include "common/wire/frame_limits.h"
#include "common/wire/message.h"

namespace cohort {

// Encodes a message; A to C are the first slice. Errors: RESOURCE_EXHAUSTED for a message over
// `bytes_max`.
absl::StatusOr<Payload> EncodeFrame(Message message, size_t bytes_max);
// Encodes a message with S.
absl::StatusOr<Payload> EncodeCheckedFrame(Message message, size_t bytes_max);

// Walks the top-level fields of what a peer sent. Errors: MalformedMessage for bytes that are no
// protobuf, where field 1000 is not last and only once, or where S is there and differs;
// RESOURCE_EXHAUSTED over a limit.
absl::StatusOr<Message> DecodeFrame(const Payload& frame, size_t bytes_max);

}  // namespace cohort
