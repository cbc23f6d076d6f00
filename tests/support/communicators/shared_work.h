#pragma once

// An operation of which all ranks' memory can be reached: runs of elements that are combined or
// copied from some addresses to others. It is divided into pieces that may be done at once.

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "worker/collective/reduce_tree.h"

namespace cohort {

// Immutable; thread-safe.
class SharedWork {
 public:
  // The calls of all ranks in order, which fit together.
  explicit SharedWork(absl::Span<const CollectiveCall> calls);

  // So that each has enough to do; at least 1.
  int PiecesFor(int pieces_max) const;
  void Do(int piece, int pieces) const;

 private:
  struct Run {
    int64_t elements = 0;
    std::vector<const std::byte*> sources;  // several are combined in this order
    std::vector<std::byte*> targets;        // all get the result
  };

  void AddReduced(absl::Span<const CollectiveCall> calls, int64_t offset, int64_t elements,
                  std::vector<std::byte*> targets);
  void AddScattered(absl::Span<const CollectiveCall> calls);
  void AddGathered(absl::Span<const CollectiveCall> calls);
  void AddExchanged(absl::Span<const CollectiveCall> calls);
  void DoRun(const Run& run, int64_t first, int64_t elements) const;
  void DoBlock(const Run& run, size_t offset, size_t elements) const;

  Reduction reduction_;
  size_t element_bytes_ = 1;
  int64_t divisor_ = 1;
  int64_t elements_ = 0;
  std::vector<Run> runs_;
};

}  // namespace cohort
