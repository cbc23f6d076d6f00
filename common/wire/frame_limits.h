#pragma once

// The limits of what travels between tasks, for every transport, with the reason for each.

#include <cstddef>

namespace cohort {

// The largest message, header and payload together. Protobuf's own limit is 2 GiB. A receiver may
// allocate memory for one whole message before it can check any of the content.
inline constexpr size_t kMessageBytesMax = size_t{1} << 30;

// The largest header of a message. A header holds ids, names and graphs, never tensors.
inline constexpr size_t kHeaderBytesMax = size_t{256} << 20;

// A payload over kWholeBytesMax travels in parts of kPartBytes: the receiver puts each part in
// place while later parts are still being sent, and small messages are sent between the parts. A
// payload up to kWholeBytesMax is read from the memory in which it arrived.
inline constexpr size_t kWholeBytesMax = size_t{4} << 20;
inline constexpr size_t kPartBytes = size_t{1} << 20;

// Limits of a lent payload, which the receiver reads in the sender's memory: the number of its
// pieces, and the bytes of its smallest piece. Copying a smaller piece is faster than lending it.
inline constexpr size_t kRangesMax = 1024;
inline constexpr size_t kLentBytesMin = size_t{16} << 10;

// The largest payload of variables' values or gradients in one call. Values and gradients travel in
// whole slices: one call takes as many slices as fit into kCallBytesMax, and at least one. So the
// memory that either end needs for a call is bounded, however large the model is. No slice that the
// coordinator cuts exceeds kCallBytesMax, unless the slice is a single row.
inline constexpr size_t kCallBytesMax = size_t{256} << 20;

// The largest row of a variable. A row travels whole, so it has to fit into one message together
// with a header that describes it.
inline constexpr size_t kRowBytesMax = kMessageBytesMax - (size_t{1} << 20);

// The most bytes that one system call copies into or out of the kernel. During a longer copy, a
// thread that wakes up for a small call could not get the processor.
inline constexpr size_t kSystemCallBytesMax = size_t{256} << 10;

// Limits of requests that are sent unasked, that is, before the server has granted room. A request
// up to kSmallRequestBytesMax is always sent unasked. Requests up to kUnaskedBytesMax are sent
// unasked as long as those under way on one connection have at most kUnaskedBytesMax together. For
// any other request, the caller first asks the server and waits until the server has room.
inline constexpr size_t kUnaskedBytesMax = size_t{1} << 20;
inline constexpr size_t kSmallRequestBytesMax = size_t{64} << 10;

// The largest payload that a request on a channel of Lane::kFrames (transport.h) may have in order
// to be sent without waiting until the server grants room. Larger requests may be sent on such a
// channel too; they travel as on a channel of Lane::kData.
inline constexpr size_t kFrameBytesMax = kWholeBytesMax;

// The chunk size of a checkpoint's shards that stream between a ps and the coordinator, or from one
// home of a variable to another. With chunks, each end holds few bytes of a shard, and other calls
// get their turn: any network moves 8 MiB in a few milliseconds.
inline constexpr size_t kShardChunkBytes = size_t{8} << 20;
inline constexpr size_t kShardChunkBytesMax = size_t{16} << 20;

}  // namespace cohort
