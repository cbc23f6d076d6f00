#pragma once

// The pushes of one synchronous round that a slice keeps until there are enough of them to apply
// them as one: their mean, their sum, or the first. They are joined in the order of their closures,
// whatever order they came in, so that the same pushes give the same bits.

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "common/tensor/dtype.h"
#include "common/wire/message.h"
#include "proto/plan.pb.h"

namespace cohort {

// Thread-compatible.
class RoundPushes {
 public:
  // A push's kind: gradients for all rows of the slice, gradients for some by their numbers, or
  // values, which replace the slice's own.
  enum class Kind { kAllRows, kSomeRows, kValue };
  struct Part {
    Kind kind = Kind::kAllRows;
    std::vector<int64_t> rows;  // for kSomeRows
    std::shared_ptr<Buffer> elements;
  };

  uint64_t round() const { return round_; }
  size_t size() const { return parts_.size(); }
  bool Has(uint64_t closure) const { return parts_.count(closure) > 0; }
  // Returns the kind of the kept pushes; nothing without any.
  std::optional<Kind> kind() const;

  // Begins a round; what was kept of an earlier one is given up.
  void Begin(uint64_t round);
  // Keeps a push of the same kind as the kept ones.
  void Keep(uint64_t closure, Part part);
  // Drops the pushes of closures that have ended otherwise.
  void DropBelow(uint64_t closure) { parts_.erase(parts_.begin(), parts_.lower_bound(closure)); }

  // Returns the kept pushes, at least one, as one push of their kind, and keeps nothing any more.
  // `how` is SUM, MEAN (of floats) or ONLY_FIRST_REPLICA. Rows of one push follow those of the
  // other.
  struct Joined {
    std::vector<uint64_t> closures;
    Kind kind = Kind::kAllRows;
    std::vector<int64_t> rows;
    Payload elements;
  };
  Joined Take(proto::VariableAggregation how, DType dtype);

  // Aborts unless what is kept is of one round and of one kind.
  void CheckInvariants() const;

 private:
  using Parts = std::map<uint64_t, Part>;  // keyed by closure

  static std::shared_ptr<Buffer> Join(const Parts& parts, proto::VariableAggregation how,
                                      DType dtype);

  uint64_t round_ = 0;
  Parts parts_;
};

}  // namespace cohort
