#pragma once

// The division of the elements of a call. Elements are divided among ranks, so that each rank owns
// a chunk. A chunk is divided into segments that travel as one frame each, so that a rank sums one
// segment while the next segment is on its way. Every rank computes the same division from the call
// and the number of ranks.

#include <cstdint>
#include <vector>

#include "worker/collective/collective_call.h"

namespace cohort {

inline constexpr int64_t kSegmentBytesMax = int64_t{2} << 20;
// The lower bound of a segment's size in bytes, unless the whole chunk is smaller.
inline constexpr int64_t kSegmentBytesMin = int64_t{1} << 20;
// The upper bound of the equal segments of EvenSegmentElements. TensorFlow's chunks are up to two
// cache lines larger than an even share; the extra 128 bytes avoid a frame for these lines alone.
inline constexpr int64_t kEvenSegmentBytesMax = kSegmentBytesMax + 128;

struct Segment {
  int64_t first = 0;  // the first element of the segment
  int64_t count = 0;
  uint32_t index = 0;  // the segment's position in its chunk
};

// Returns how many elements a segment has, for chunks of at most `chunk_elements`: half a chunk,
// limited to kSegmentBytesMin and kSegmentBytesMax.
int64_t SegmentElements(DType dtype, int64_t chunk_elements);

// Returns how many elements a segment has if an all-reduce divides chunks of `chunk_elements` into
// equal segments. The segments are as few as possible, since one more frame costs more time than
// waiting for a larger frame.
int64_t EvenSegmentElements(DType dtype, int64_t chunk_elements);

// Returns elements [first, first + count) divided into segments of `elements`. Returns one empty
// segment if `count` is 0.
std::vector<Segment> Segments(int64_t first, int64_t count, int64_t elements);

// Returns how many elements each of n chunks has, as equal as whole cache lines allow; the last
// chunks may be empty. Chunk i begins at i times this size.
int64_t EvenChunkElements(DType dtype, int64_t count, int n);

// Returns how many elements a rank's chunk has in TensorFlow's ring of n tasks with one device each
// (ring_alg.cc). A chunk has one subdivision or, above 4 MiB, two. A subdivision is rounded up to
// 64 bytes, and grows by 64 bytes if it is a multiple of 64 already. The same chunk borders give
// the same result bits as TensorFlow.
int64_t TensorFlowChunkElements(DType dtype, int64_t count, int n);

// Returns chunk i if `count` elements are divided into chunks of `chunk` elements.
Segment ChunkAt(int64_t count, int64_t chunk, int i);

// The two parts of a frame's tag: the phase of the algorithm that sends the frame, and the index of
// the frame in the phase.
enum class Phase : uint32_t { kScatter = 1, kGather = 2, kLocal = 3, kCross = 4, kBack = 5 };
uint32_t Tag(Phase phase, int64_t index);
// The tag of a frame that only says that its sender has started the call.
inline constexpr uint32_t kHelloTag = 0;

}  // namespace cohort
