#pragma once

// The work of one rank in one call, as data: sends, receives, sums and copies, and which of them
// waits for which. Algorithms are functions that write plans (plans.h). One class carries plans out
// (operation.h), whatever the transport and the order in which frames arrive.
//
// A plan counts in elements. A Ref is a range of elements in the caller's input, in the caller's
// output, in a frame that a receive brings, or in memory that the operation allocates for a sum or
// a copy. A step that reads the result of another step waits for that step.
//
// If input and output are the same memory, a plan writes over elements that it has sent only if the
// new value was computed from what their receiver made of them, so that the receiver has read them.
// Otherwise the plan sends a copy of the input.

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
  bool partial = false;  // true: the elements have the accumulator type (reduce_tree.h)
  // The plan step after which the elements can be read; kNoStep if they can be read at once.
  uint32_t step = kNoStep;
  int64_t first = 0;  // index of the first element in its place
  int64_t count = 0;
};

struct PlanStep {
  enum class Kind : uint8_t { kSend, kReceive, kCombine, kCopy };

  Kind kind = Kind::kSend;
  bool final = false;  // for a sum: the result is the final one, over all ranks
  int peer = 0;        // the rank to which a step sends or from which it receives
  uint32_t tag = 0;    // tag of the frame that is sent or received; unique between two ranks
  Ref target;          // range of elements in which the step puts its result
  uint32_t refs_begin = 0;
  uint32_t refs_end = 0;  // the step reads RankPlan::refs[refs_begin, refs_end)
};

struct RankPlan {
  std::vector<PlanStep> steps;
  std::vector<Ref> refs;

  absl::Span<const Ref> RefsOf(const PlanStep& step) const {
    return absl::MakeConstSpan(refs).subspan(step.refs_begin, step.refs_end - step.refs_begin);
  }
};

// Writes a plan, step by step. A step reads only results of earlier steps. Thread-compatible.
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

  // Add a step that combines the operands by the tree of reduce_tree.h, in the given order. The
  // result is a partial sum or the final one. It goes to `target`, which is as long as an operand,
  // or into memory of the operation.
  Ref CombinePartial(absl::Span<const Ref> operands);
  Ref CombinePartialInto(absl::Span<const Ref> operands, const Ref& target);
  Ref CombineFinal(absl::Span<const Ref> operands);
  Ref CombineFinalInto(absl::Span<const Ref> operands, const Ref& target);

  Ref Copy(const Ref& what);  // copies the elements into memory of the operation
  Ref CopyInto(const Ref& what, const Ref& target);
  // Adds a step that waits for the steps of all Refs in `all`. Returns a Ref without elements, for
  // which later steps can wait.
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
