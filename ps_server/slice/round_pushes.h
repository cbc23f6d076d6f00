#pragma once

// The pushes of one synchronous round that a slice keeps until the round has as many pushes as it
// needs. The slice then applies them as one push: their mean, their sum, or only the push with the
// lowest closure id. The pushes are joined in ascending order of their closure ids, whatever the
// order of their arrival, so the result has the same bits every time.

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
  // The content of a push: gradients for all rows of the slice, gradients for some rows, or a new
  // value for the whole slice.
  enum class Kind { kAllRows, kSomeRows, kValue };
  struct Part {
    Kind kind = Kind::kAllRows;
    // Row numbers in the whole variable, or keys of a dynamic table; empty unless kSomeRows.
    std::vector<int64_t> rows;
    std::shared_ptr<Buffer> elements;
  };

  uint64_t round() const { return round_; }
  size_t size() const { return parts_.size(); }
  bool Has(uint64_t closure) const { return parts_.count(closure) > 0; }
  // Returns the kind of the kept pushes, or nullopt if no push is kept.
  std::optional<Kind> kind() const;

  // Begins a new round, and drops the kept pushes of the round before.
  void Begin(uint64_t round);
  // Keeps the push of a closure. The push must have the same kind as the pushes that are already
  // kept.
  void Keep(uint64_t closure, Part part);
  // Drops the pushes of closures with ids below `closure`. Those closures have ended, and the round
  // no longer waits for them.
  void DropBelow(uint64_t closure);

  // The pushes of a round joined into one push of the same kind. For kSomeRows, the row numbers and
  // gradients of all pushes stand one after another, in the order of the closures.
  struct Joined {
    std::vector<uint64_t> closures;
    Kind kind = Kind::kAllRows;
    std::vector<int64_t> rows;
    Payload elements;
  };
  // Joins the kept pushes (at least one) into one, after which no push is kept. `how` is SUM, MEAN
  // (for floats only) or ONLY_FIRST_REPLICA (the push with the lowest closure id).
  Joined Take(proto::VariableAggregation how, DType dtype);

  // Aborts if a push is kept although no round has begun, if the kept pushes differ in kind, if a
  // push has no elements, or if a push of another kind than kSomeRows has row numbers.
  void CheckInvariants() const;

 private:
  using Parts = std::map<uint64_t, Part>;  // the kept pushes by closure id

  static std::shared_ptr<Buffer> Join(const Parts& parts, proto::VariableAggregation how,
                                      DType dtype);

  uint64_t round_ = 0;
  Parts parts_;
};

}  // namespace cohort
