#include "common/task/allocator.h"

#include <malloc.h>

#include <algorithm>

#include "common/base/machine.h"

namespace cohort {

namespace {
constexpr int kMmapThresholdBytes = 1 << 30;
constexpr int kTrimThresholdBytes = 1 << 30;
constexpr int kTopPadBytes = 64 << 20;
}  // namespace

void TuneAllocator() {
  // A C library may refuse a value and keep its own; only speed depends on these values.
  mallopt(M_MMAP_THRESHOLD, kMmapThresholdBytes);
  mallopt(M_TRIM_THRESHOLD, kTrimThresholdBytes);
  // The heap grows in large steps, so that it grows rarely.
  mallopt(M_TOP_PAD, kTopPadBytes);
  mallopt(M_ARENA_MAX, std::max(2, ProcessorCount()));
}

}  // namespace cohort
