#pragma once

// The work of one rank in one operation, as data: sends, receives, sums and copies, and what has to
// happen before what. Algorithms are functions that write plans (plans.h); one machine carries them
// out (operation.h), whatever the transport and the order in which frames arrive.
//
// A plan speaks in elements. A Ref is a run of elements somewhere: in the caller's input or output,
// in a frame that a receive brings, or in memory of the operation that a sum or a copy made. A step
// that reads what another makes waits for it.
//
// A plan may write over input that it sends (operations in place) only if the receiver has made use
// of that input by then: because the new value came back through that receiver. Otherwise it sends
// a copy.

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <vector>

#include "absl/types/span.h"
#include "worker/collective/collective_call.h"

namespace cohort {

struct Ref {
  enum class Place : uint8_t { kInput, kOutput, kFrame, kMade };
  static constexpr uint32_t kNoStep = ~uint32_t{0};

  Place place = Place::kInput;
  bool partial = false;     // in the accumulator's type (reduce_tree.h)
  uint32_t step = kNoStep;  // what it waits for; of kFrame and kMade the step that makes it
  int64_t first = 0;        // element
  int64_t count = 0;
};

struct PlanStep {
  enum class Kind : uint8_t { kSend, kReceive, kCombine, kCopy };

  Kind kind = Kind::kSend;
  bool final = false;  // for a sum: the result is that of all ranks
  int peer = 0;        // for sends and receives
  uint32_t tag = 0;    // for sends and receives: used once for each pair of ranks and direction
  Ref target;          // what it makes
  uint32_t refs_begin = 0;
  uint32_t refs_end = 0;  // what it reads: RankPlan::refs[refs_begin, refs_end)
};

struct RankPlan {
  std::vector<PlanStep> steps;
  std::vector<Ref> refs;

  absl::Span<const Ref> RefsOf(const PlanStep& step) const {
    return absl::MakeConstSpan(refs).subspan(step.refs_begin, step.refs_end - step.refs_begin);
  }
};

// Writes a plan step by step; a step reads only what steps before it make. Thread-compatible.
class PlanBuilder {
 public:
  static Ref Input(int64_t first, int64_t count) {
    return {Ref::Place::kInput, false, Ref::kNoStep, first, count};
  }
  static Ref Output(int64_t first, int64_t count) {
    return {Ref::Place::kOutput, false, Ref::kNoStep, first, count};
  }

  void Send(int peer, uint32_t tag, const Ref& what);
  Ref Receive(int peer, uint32_t tag, int64_t count);
  Ref ReceivePartial(int peer, uint32_t tag, int64_t count);

  // Adds the tree over the operands in this order.
  Ref CombinePartial(absl::Span<const Ref> operands);  // in own memory
  Ref CombinePartialInto(absl::Span<const Ref> operands,
                         const Ref& target);         // `target` has the same size
  Ref CombineFinal(absl::Span<const Ref> operands);  // in own memory
  Ref CombineFinalInto(absl::Span<const Ref> operands, const Ref& target);

  Ref Copy(const Ref& what);  // to own memory
  Ref CopyInto(const Ref& what, const Ref& target);
  // Returns nothing if all of these have come.
  Ref Join(absl::Span<const Ref> all);

  RankPlan Finish() && { return std::move(plan_); }

 private:
  uint32_t Add(PlanStep::Kind kind, absl::Span<const Ref> refs);
  Ref Target(uint32_t step, Ref target);
  Ref Made(PlanStep::Kind kind, absl::Span<const Ref> refs, bool partial);
  Ref MadeAt(PlanStep::Kind kind, absl::Span<const Ref> refs, Ref target, bool partial);

  RankPlan plan_;
};

}  // namespace cohort
