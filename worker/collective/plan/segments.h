#pragma once

// How elements are divided: among ranks, so that each owns a chunk, and a chunk into segments, one
// frame each, so that a rank sums one while the next is on its way. Every rank computes the same
// from the call and the number of ranks.

#include <cstdint>
#include <vector>

#include "worker/collective/collective_call.h"

namespace cohort {

inline constexpr int64_t kSegmentBytesMax = int64_t{2} << 20;
inline constexpr int64_t kSegmentBytesMin = int64_t{1} << 20;  // of chunks that are larger
// Of those that are equal: TensorFlow's chunks are up to two lines larger than an even share, and
// no frame is sent for these alone.
inline constexpr int64_t kEvenSegmentBytesMax = kSegmentBytesMax + 128;

struct Segment {
  int64_t first = 0;  // element
  int64_t count = 0;
  uint32_t index = 0;  // in its chunk
};

// Of a chunk of at most so many elements: half, between the bounds.
int64_t SegmentElements(DType dtype, int64_t chunk_elements);

// Of a chunk of at most so many elements that an all-reduce divides: equal ones, as few as may be,
// since a frame more costs more than what waits for the whole of a larger one.
int64_t EvenSegmentElements(DType dtype, int64_t chunk_elements);

// Elements [first, first + count) in segments of `elements`. One empty segment for no elements.
std::vector<Segment> Segments(int64_t first, int64_t count, int64_t elements);

// n chunks as equal as whole cache lines allow; the last ones may be empty. Chunk i begins at i
// times this.
int64_t EvenChunkElements(DType dtype, int64_t count, int n);

// The elements of a rank's chunk in TensorFlow's ring of n tasks with one device each
// (ring_alg.cc): chunks of one or, above 4 MiB, two subdivisions, rounded up to 64 bytes, and when
// they are whole already by 64 bytes more. Keeping its borders keeps its bits.
int64_t TensorFlowChunkElements(DType dtype, int64_t count, int n);

// Chunk i of chunks of `chunk` elements among `count`.
Segment ChunkAt(int64_t count, int64_t chunk, int i);

// Tags of frames: what the frame is for, and which of these it is.
enum class Phase : uint32_t { kScatter = 1, kGather = 2, kLocal = 3, kCross = 4, kBack = 5 };
uint32_t Tag(Phase phase, int64_t index);
inline constexpr uint32_t kHelloTag = 0;  // only says that the rank has started the call

}  // namespace cohort
