#pragma once

// The division of the elements of a call. The elements are divided into chunks, one or more for
// each rank. A chunk is divided into segments, which travel as one frame each, so that a rank sums
// one segment while the next is on its way. Every rank computes the same division from the call and
// the number of ranks.

#include <cstdint>
#include <vector>

#include "worker/collective/collective_call.h"

namespace cohort {

inline constexpr int64_t kSegmentBytesMax = int64_t{2} << 20;
// The lower bound of a segment's size in bytes, except in smaller chunks.
inline constexpr int64_t kSegmentBytesMin = int64_t{1} << 20;
// The upper bound, in bytes, of the equal segments of EvenSegmentElements(). TensorFlow's chunks
// are up to two cache lines larger than an even share of the elements; the extra 128 bytes save a
// frame for these lines alone.
inline constexpr int64_t kEvenSegmentBytesMax = kSegmentBytesMax + 128;

struct Segment {
  int64_t first = 0;  // first element, counted as in the range that was divided
  int64_t count = 0;
  uint32_t index = 0;  // number of the segment in its chunk, or of the chunk in the call
};

// Returns the number of elements in a segment of chunks that have at most `chunk_elements`: half a
// chunk, but at least kSegmentBytesMin and at most kSegmentBytesMax.
int64_t SegmentElements(DType dtype, int64_t chunk_elements);

// Returns the number of elements in a segment if an all-reduce divides chunks of `chunk_elements`
// into equal segments. There are as few segments as possible, because one more frame costs more
// time than the wait for a larger one.
int64_t EvenSegmentElements(DType dtype, int64_t chunk_elements);

// Divides the elements [first, first + count) into segments of `elements` elements; the last one
// may have fewer. Returns one empty segment if `count` is 0.
std::vector<Segment> Segments(int64_t first, int64_t count, int64_t elements);

// Returns the number of elements in a chunk if `count` elements are divided into n chunks, as equal
// as whole cache lines allow. Chunk i begins at i times this number; the last chunks may be empty.
int64_t EvenChunkElements(DType dtype, int64_t count, int n);

// Returns the number of elements in a chunk of TensorFlow's ring of n tasks with one device each
// (ring_alg.cc). A chunk has one subdivision, or two if it has more than 4 MiB. A subdivision is
// rounded up to 64 bytes, and grows by 64 bytes if it is a multiple of 64 already. With the same
// chunks as TensorFlow, sums have the same bits.
int64_t TensorFlowChunkElements(DType dtype, int64_t count, int n);

// Returns chunk i of `count` elements that are divided into chunks of `chunk` elements.
Segment ChunkAt(int64_t count, int64_t chunk, int i);

// The parts of a frame's tag: the phase of the algorithm in which the frame is sent, and the number
// of the frame in the phase.
enum class Phase : uint32_t { kScatter = 1, kGather = 2, kLocal = 3, kCross = 4, kBack = 5 };
uint32_t Tag(Phase phase, int64_t index);
// The tag of a frame that only says that its sender has started the call.
inline constexpr uint32_t kHelloTag = 0;

}  // namespace cohort
