#pragma once

// The pushes of one synchronous round that a slice keeps until it has enough of them to apply them
// as one push: their mean, their sum, or the first push alone. Pushes are joined in ascending order
// of their closures' ids, whatever order they arrived in, so the same pushes give the same bits.

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "common/tensor/dtype.h"
#include "common/wire/message.h"
#include "proto/plan.pb.h"

namespace cohort {

// The pushes that one slice keeps for the current round. Thread-compatible.
class RoundPushes {
 public:
  // The kind of a push: gradients for all rows of the slice, gradients for some rows by their
  // numbers, or new values that replace the slice's own.
  enum class Kind { kAllRows, kSomeRows, kValue };
  struct Part {
    Kind kind = Kind::kAllRows;
    std::vector<int64_t> rows;  // row numbers or keys, for kSomeRows only
    std::shared_ptr<Buffer> elements;
  };

  uint64_t round() const { return round_; }
  size_t size() const { return parts_.size(); }
  bool Has(uint64_t closure) const { return parts_.count(closure) > 0; }
  // Returns the kind of the kept pushes, or nothing if no push is kept.
  std::optional<Kind> kind() const;

  // Begins a round and drops the pushes that were kept for an earlier round.
  void Begin(uint64_t round);
  // Keeps a push, whose kind must be that of the pushes kept already.
  void Keep(uint64_t closure, Part part);
  // Drops the pushes of closures below `closure`, which have ended without this round.
  void DropBelow(uint64_t closure) { parts_.erase(parts_.begin(), parts_.lower_bound(closure)); }

  // The kept pushes of a round joined into one push of their kind; the rows of one push follow
  // those of the one before it.
  struct Joined {
    std::vector<uint64_t> closures;
    Kind kind = Kind::kAllRows;
    std::vector<int64_t> rows;
    Payload elements;
  };
  // Joins the kept pushes, at least one, and keeps none of them any more. `how` is SUM, MEAN
  // (floats only) or ONLY_FIRST_REPLICA.
  Joined Take(proto::VariableAggregation how, DType dtype);

  // Aborts unless what is kept is of one round and of one kind.
  void CheckInvariants() const;

 private:
  using Parts = std::map<uint64_t, Part>;  // keyed by closure id

  static std::shared_ptr<Buffer> Join(const Parts& parts, proto::VariableAggregation how,
                                      DType dtype);

  uint64_t round_ = 0;
  Parts parts_;
};

}  // namespace cohort
