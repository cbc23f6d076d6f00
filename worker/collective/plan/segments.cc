#include "worker/collective/plan/segments.h"

#include <algorithm>

#include "common/base/check.h"

namespace cohort {

namespace {

// The size of a cache line; chunks and segments end at multiples of it.
constexpr int64_t kLineBytes = 64;
// The phase is in the upper 4 bits of a tag, the number of the frame in the lower 28 bits.
constexpr int kPhaseShift = 28;
// The size in bytes above which TensorFlow cuts a chunk into two subdivisions.
constexpr int64_t kTensorFlowChunkBytes = int64_t{4} << 20;

int64_t CeilDivide(int64_t a, int64_t b) { return (a + b - 1) / b; }

int64_t ElementBytes(DType dtype) { return static_cast<int64_t>(ElementSize(dtype)); }

}  // namespace

int64_t SegmentElements(DType dtype, int64_t chunk_elements) {
  const int64_t element = std::max<int64_t>(ElementBytes(dtype), 1);
  const int64_t half = CeilDivide(chunk_elements * element, 2);
  const int64_t bytes = std::clamp(half, kSegmentBytesMin, kSegmentBytesMax);
  return CeilDivide(bytes, kLineBytes) * kLineBytes / element;
}

int64_t EvenSegmentElements(DType dtype, int64_t chunk_elements) {
  const int64_t element = std::max<int64_t>(ElementBytes(dtype), 1);
  const int64_t bytes = std::max(chunk_elements * element, kLineBytes);
  const int64_t segments = CeilDivide(bytes, kEvenSegmentBytesMax);
  return CeilDivide(CeilDivide(bytes, segments), kLineBytes) * kLineBytes / element;
}

std::vector<Segment> Segments(int64_t first, int64_t count, int64_t elements) {
  std::vector<Segment> segments;
  uint32_t index = 0;
  int64_t done = 0;
  // The loop runs at least once, because a call without elements still sends one empty frame.
  do {
    segments.push_back({first + done, std::min(elements, count - done), index++});
    done += elements;
  } while (done < count);
  return segments;
}

int64_t EvenChunkElements(DType dtype, int64_t count, int n) {
  const int64_t line = kLineBytes / ElementBytes(dtype);
  return CeilDivide(CeilDivide(count, n), line) * line;
}

int64_t TensorFlowChunkElements(DType dtype, int64_t count, int n) {
  const int64_t element = ElementBytes(dtype);
  const int64_t subdivisions = count * element / n > kTensorFlowChunkBytes ? 2 : 1;
  const int64_t bytes = CeilDivide(count, n * subdivisions) * element;
  // TensorFlow adds a cache line even to a whole number of lines. With the same chunks as
  // TensorFlow, sums have the same bits.
  return (bytes / kLineBytes + 1) * kLineBytes / element * subdivisions;
}

Segment ChunkAt(int64_t count, int64_t chunk, int i) {
  const int64_t begin = std::min(count, chunk * i);
  return {begin, std::min(count, begin + chunk) - begin, static_cast<uint32_t>(i)};
}

uint32_t Tag(Phase phase, int64_t index) {
  COHORT_CHECK(index < int64_t{1} << kPhaseShift, "at most 2^28 segments");
  return static_cast<uint32_t>(phase) << kPhaseShift | static_cast<uint32_t>(index);
}

}  // namespace cohort
