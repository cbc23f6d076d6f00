#pragma once

// What a slice keeps of one round of float pushes until it has enough of them for their mean. They
// are added in the order of their closures, whatever order they came in, so that the same pushes
// give the same bits.

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "common/wire/message.h"

namespace cohort {

// Thread-compatible.
class RoundMean {
 public:
  // One push: of all rows of the slice, or of some by their numbers.
  struct Part {
    std::optional<std::vector<int64_t>> rows;
    std::shared_ptr<Buffer> gradient;
  };

  uint64_t round() const { return round_; }
  size_t size() const { return parts_.size(); }
  bool Has(uint64_t closure) const { return parts_.count(closure) > 0; }
  // Whether pushes that are kept are of all rows; nothing without any.
  std::optional<bool> IsOfAllRows() const;

  // Begins a round; what was kept of an earlier one is given up.
  void Begin(uint64_t round);
  // Of the same kind as those that are kept.
  void Keep(uint64_t closure, Part part) { parts_.emplace(closure, std::move(part)); }
  // Those closures have ended otherwise.
  void DropBelow(uint64_t closure) { parts_.erase(parts_.begin(), parts_.lower_bound(closure)); }

  // The mean as one push, of at least one that is kept: of all rows, or the rows of one behind
  // those of the other. Nothing is kept any more.
  struct Mean {
    std::vector<uint64_t> closures;
    std::optional<std::vector<int64_t>> rows;
    Payload gradient;
  };
  Mean Take();

 private:
  uint64_t round_ = 0;
  std::map<uint64_t, Part> parts_;  // by closure
};

}  // namespace cohort
