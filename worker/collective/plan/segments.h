#pragma once

// The division of elements: among ranks, so that each owns a chunk, and of a chunk into segments,
// one frame each, so that a rank sums one while the next is on its way. Every rank computes the
// same division from the call and the number of ranks.

#include <cstdint>
#include <vector>

#include "worker/collective/collective_call.h"

namespace cohort {

inline constexpr int64_t kSegmentBytesMax = int64_t{2} << 20;
inline constexpr int64_t kSegmentBytesMin = int64_t{1} << 20;  // for chunks that are larger
// Upper bound of equal segments: TensorFlow's chunks are up to two lines larger than an even share,
// and no frame is sent for these alone.
inline constexpr int64_t kEvenSegmentBytesMax = kSegmentBytesMax + 128;

struct Segment {
  int64_t first = 0;  // element
  int64_t count = 0;
  uint32_t index = 0;  // index in its chunk
};

// Returns the elements of a segment for chunks of at most so many elements: half, between the
// bounds.
int64_t SegmentElements(DType dtype, int64_t chunk_elements);

// Returns the elements of equal segments for chunks that an all-reduce divides: as few segments as
// possible, since one more frame costs more than waiting for the whole of a larger one.
int64_t EvenSegmentElements(DType dtype, int64_t chunk_elements);

// Elements [first, first + count) in segments of `elements`. One empty segment for no elements.
std::vector<Segment> Segments(int64_t first, int64_t count, int64_t elements);

// Returns the size of n chunks as equal as whole cache lines allow; the last ones may be empty.
// Chunk i begins at i times this size.
int64_t EvenChunkElements(DType dtype, int64_t count, int n);

// Returns the elements of a rank's chunk in TensorFlow's ring of n tasks with one device each
// (ring_alg.cc): chunks of one or, above 4 MiB, two subdivisions, rounded up to 64 bytes, and by 64
// bytes more if they are whole already. Keeping its borders keeps its bits.
int64_t TensorFlowChunkElements(DType dtype, int64_t count, int n);

// Returns chunk i of chunks of `chunk` elements among `count`.
Segment ChunkAt(int64_t count, int64_t chunk, int i);

// Tags of frames: what the frame is for, and which of these it is.
enum class Phase : uint32_t { kScatter = 1, kGather = 2, kLocal = 3, kCross = 4, kBack = 5 };
uint32_t Tag(Phase phase, int64_t index);
inline constexpr uint32_t kHelloTag = 0;  // only says that the rank has started the call

}  // namespace cohort
