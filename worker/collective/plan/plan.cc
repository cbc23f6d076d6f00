#include "worker/collective/plan/plan.h"

#include <utility>

#include "common/base/check.h"

namespace cohort {

// Appends a step that reads `refs`, and returns the step's number.
uint32_t PlanBuilder::Add(PlanStep::Kind kind, absl::Span<const Ref> refs) {
  PlanStep step;
  step.kind = kind;
  step.refs_begin = static_cast<uint32_t>(plan_.refs.size());
  plan_.refs.insert(plan_.refs.end(), refs.begin(), refs.end());
  step.refs_end = static_cast<uint32_t>(plan_.refs.size());
  plan_.steps.push_back(step);
  return static_cast<uint32_t>(plan_.steps.size() - 1);
}

// Sets the range in which a step puts its result. Returns the Ref by which later steps read the
// result.
Ref PlanBuilder::Target(uint32_t step, Ref target) {
  target.step = step;
  plan_.steps[step].target = target;
  return target;
}

Ref PlanBuilder::Made(PlanStep::Kind kind, absl::Span<const Ref> refs, bool partial) {
  return Target(Add(kind, refs), {Ref::Place::kMade, partial, 0, 0, refs[0].count});
}

Ref PlanBuilder::MadeAt(PlanStep::Kind kind, absl::Span<const Ref> refs, Ref target, bool partial) {
  COHORT_CHECK(target.count == refs[0].count, "the target has the size of the result");
  target.partial = partial;
  return Target(Add(kind, refs), target);
}

void PlanBuilder::Send(int peer, uint32_t tag, const Ref& what) {
  PlanStep& step = plan_.steps[Add(PlanStep::Kind::kSend, {what})];
  step.peer = peer;
  step.tag = tag;
}

Ref PlanBuilder::Receive(int peer, uint32_t tag, int64_t count) {
  const uint32_t index = Add(PlanStep::Kind::kReceive, {});
  plan_.steps[index].peer = peer;
  plan_.steps[index].tag = tag;
  return Target(index, {Ref::Place::kFrame, false, 0, 0, count});
}

Ref PlanBuilder::ReceivePartial(int peer, uint32_t tag, int64_t count) {
  Ref frame = Receive(peer, tag, count);
  frame.partial = true;
  plan_.steps[frame.step].target = frame;
  return frame;
}

Ref PlanBuilder::CombinePartial(absl::Span<const Ref> operands) {
  return Made(PlanStep::Kind::kCombine, operands, true);
}

Ref PlanBuilder::CombinePartialInto(absl::Span<const Ref> operands, const Ref& target) {
  return MadeAt(PlanStep::Kind::kCombine, operands, target, true);
}

Ref PlanBuilder::CombineFinal(absl::Span<const Ref> operands) {
  const Ref result = Made(PlanStep::Kind::kCombine, operands, false);
  plan_.steps[result.step].final = true;
  return result;
}

Ref PlanBuilder::CombineFinalInto(absl::Span<const Ref> operands, const Ref& target) {
  const Ref result = MadeAt(PlanStep::Kind::kCombine, operands, target, false);
  plan_.steps[result.step].final = true;
  return result;
}

Ref PlanBuilder::Copy(const Ref& what) { return Made(PlanStep::Kind::kCopy, {what}, what.partial); }

Ref PlanBuilder::Join(absl::Span<const Ref> all) {
  // The result of a join has no elements: later steps only wait for the join.
  return Target(Add(PlanStep::Kind::kCopy, all), {Ref::Place::kMade, false, 0, 0, 0});
}

Ref PlanBuilder::CopyInto(const Ref& what, const Ref& target) {
  return MadeAt(PlanStep::Kind::kCopy, {what}, target, what.partial);
}

}  // namespace cohort
