#pragma once

#include <cstddef>

namespace cohort {

// The largest message, header and payload together. Protobuf stops at 2 GiB, and one message may be
// allocated before anything of it is known to make sense.
inline constexpr size_t kMessageBytesMax = size_t{1} << 30;

// The header holds ids, names and graphs, never tensors.
inline constexpr size_t kHeaderBytesMax = size_t{256} << 20;

// A payload that is larger travels in parts, so that its receiver puts it where it belongs while it
// is still being sent, and small messages get between. One that is not larger is read where it
// arrived.
inline constexpr size_t kWholeBytesMax = size_t{4} << 20;
inline constexpr size_t kPartBytes = size_t{1} << 20;

// Limits of a payload that is read where its sender has it: the number of pieces, and the bytes of
// the smallest one. Smaller pieces are copied sooner than lent.
inline constexpr size_t kRangesMax = 1024;
inline constexpr size_t kLentBytesMin = size_t{16} << 10;

// Values of variables and their gradients travel in whole slices, as many in one call as fit into
// so many bytes, and at least one: what either end holds of a call is bounded, however large the
// model is. No slice that the coordinator cuts is larger, unless it is a single row.
inline constexpr size_t kCallBytesMax = size_t{256} << 20;

// A row travels whole, so it has to fit into one message with a header that describes it.
inline constexpr size_t kRowBytesMax = kMessageBytesMax - (size_t{1} << 20);

// The bytes of a part that one system call gives to the kernel, or takes from it: while the kernel
// copies, it may keep the processor from a thread that wakes for a small call.
inline constexpr size_t kSystemCallBytesMax = size_t{256} << 10;

// A caller asks before it sends a request of more bytes, and waits until the server has room. Of
// requests that are not larger it sends so many bytes unasked at a time over one connection, beside
// those of requests that are small.
inline constexpr size_t kUnaskedBytesMax = size_t{1} << 20;
inline constexpr size_t kSmallRequestBytesMax = size_t{64} << 10;

// Upper bound of a request's payload on a lane of frames (transport.h).
inline constexpr size_t kFrameBytesMax = kWholeBytesMax;

// Shards that stream between a ps and the coordinator, or from home to home, come in chunks, so
// that each end holds few bytes of them and other calls get their turn: 8 MiB are some ms of any
// network.
inline constexpr size_t kShardChunkBytes = size_t{8} << 20;
inline constexpr size_t kShardChunkBytesMax = size_t{16} << 20;

}  // namespace cohort
