#pragma once

// The work of one rank in one operation, as data: sends, receives, sums and copies, and which step
// waits for which. Algorithms are functions that write plans (plans.h). One class carries plans
// out (operation.h), whatever the transport and the order in which frames arrive.
//
// A plan counts in elements. A Ref is a range of elements in the caller's input or output, in a
// frame that a receive brings, or in memory that the operation allocates for a sum or a copy. A
// step that reads the result of another step waits for that step.
//
// A plan may write over input that it sends (operations in place) only if the receiver has made use
// of that input by then, because the new value came back through that receiver. Otherwise the plan
// sends a copy of the input.

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
  bool partial = false;  // the elements have the accumulator's type (reduce_tree.h)
  // The step that readers of the range wait for; for kFrame and kMade, the step that makes the
  // elements.
  uint32_t step = kNoStep;
  int64_t first = 0;  // the first element of the range
  int64_t count = 0;
};

struct PlanStep {
  enum class Kind : uint8_t { kSend, kReceive, kCombine, kCopy };

  Kind kind = Kind::kSend;
  bool final = false;  // for a sum: the result is the sum over all ranks
  int peer = 0;        // the other rank of a send or receive
  uint32_t tag = 0;    // the tag of a send or receive; used once for each sender and receiver
  Ref target;          // where the step puts the elements that it makes
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

// A writer of a plan, step by step. A step reads only the results of earlier steps.
// Thread-compatible.
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

  // Add a step that combines the operands by the tree of reduce_tree.h, in their order. The result
  // goes to `target`, which has the size of an operand, or else into memory of the operation.
  Ref CombinePartial(absl::Span<const Ref> operands);
  Ref CombinePartialInto(absl::Span<const Ref> operands, const Ref& target);
  Ref CombineFinal(absl::Span<const Ref> operands);
  Ref CombineFinalInto(absl::Span<const Ref> operands, const Ref& target);

  Ref Copy(const Ref& what);  // the copy goes into memory of the operation
  Ref CopyInto(const Ref& what, const Ref& target);
  // Adds a step that waits until the elements of all Refs in `all` are made, and returns a Ref
  // without elements that later steps can wait for.
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
