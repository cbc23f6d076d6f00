#include "common/runtime/run/memory_plan.h"

#include <algorithm>
#include <numeric>

namespace cohort {

namespace {

// The alignment of values in the arena: one cache line, which is also the alignment of AVX-512
// loads.
constexpr size_t kAlignment = 64;

size_t Rounded(size_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

bool Overlap(const LiveRange& a, const LiveRange& b) {
  return a.first <= b.last && b.first <= a.last;
}

}  // namespace

MemoryPlan PlanMemory(absl::Span<const LiveRange> ranges) {
  std::vector<size_t> by_size(ranges.size());
  std::iota(by_size.begin(), by_size.end(), size_t{0});
  // The sort is stable: live ranges of equal size keep their order, so every machine makes the same
  // plan.
  std::stable_sort(by_size.begin(), by_size.end(),
                   [&](size_t a, size_t b) { return ranges[a].bytes > ranges[b].bytes; });
  MemoryPlan plan;
  plan.offsets.resize(ranges.size(), 0);
  std::vector<size_t> placed;  // indices of the live ranges that have an offset, ordered by offset
  for (const size_t index : by_size) {
    const size_t bytes = Rounded(ranges[index].bytes);
    size_t offset = 0;
    // The live ranges in `placed` are ordered by offset, so the first gap that is large enough has
    // the lowest offset.
    for (const size_t other : placed) {
      if (!Overlap(ranges[index], ranges[other])) continue;
      if (offset + bytes <= plan.offsets[other]) break;
      offset = std::max(offset, plan.offsets[other] + Rounded(ranges[other].bytes));
    }
    plan.offsets[index] = offset;
    plan.arena_bytes = std::max(plan.arena_bytes, offset + bytes);
    const auto position =
        std::upper_bound(placed.begin(), placed.end(), offset,
                         [&](size_t value, size_t other) { return value < plan.offsets[other]; });
    placed.insert(position, index);
  }
  return plan;
}

}  // namespace cohort
