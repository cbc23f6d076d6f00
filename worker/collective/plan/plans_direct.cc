#include "worker/collective/plan/plans.h"
#include "worker/collective/plan/segments.h"

namespace cohort {

namespace {

// Returns where each part begins, and as last element the sum of all counts.
std::vector<int64_t> Begins(const std::vector<int64_t>& counts) {
  std::vector<int64_t> begins = {0};
  for (const int64_t count : counts) begins.push_back(begins.back() + count);
  return begins;
}

std::vector<Segment> SegmentsOf(DType dtype, int64_t first, int64_t count) {
  return Segments(first, count, SegmentElements(dtype, count));
}

}  // namespace

RankPlan DirectReduceScatter(const PlanInput& in) {
  PlanBuilder plan;
  const std::vector<int64_t> begins = Begins(in.call.counts);
  // Each rank begins with the rank after itself, so that no rank gets the first frames of all
  // ranks.
  for (int turn = 1; turn < in.size; ++turn) {
    const int owner = (in.rank + turn) % in.size;
    const auto o = static_cast<size_t>(owner);
    for (const Segment& part : SegmentsOf(in.call.dtype, begins[o], in.call.counts[o])) {
      plan.Send(owner, Tag(Phase::kScatter, part.index),
                PlanBuilder::Input(part.first, part.count));
    }
  }
  const auto own = static_cast<size_t>(in.rank);
  for (const Segment& part : SegmentsOf(in.call.dtype, begins[own], in.call.counts[own])) {
    std::vector<Ref> operands;
    for (int peer = 0; peer < in.size; ++peer) {
      operands.push_back(peer == in.rank
                             ? PlanBuilder::Input(part.first, part.count)
                             : plan.Receive(peer, Tag(Phase::kScatter, part.index), part.count));
    }
    // The output has the own part only, so its offsets are relative to the part.
    plan.CombineFinalInto(operands, PlanBuilder::Output(part.first - begins[own], part.count));
  }
  return std::move(plan).Finish();
}

RankPlan DirectAllGather(const PlanInput& in) {
  PlanBuilder plan;
  const std::vector<int64_t> begins = Begins(in.call.counts);
  const int64_t own = in.call.counts[static_cast<size_t>(in.rank)];
  for (const Segment& part : SegmentsOf(in.call.dtype, 0, own)) {
    const Ref input = PlanBuilder::Input(part.first, part.count);
    for (int turn = 1; turn < in.size; ++turn) {
      plan.Send((in.rank + turn) % in.size, Tag(Phase::kGather, part.index), input);
    }
  }
  for (int peer = 0; peer < in.size; ++peer) {
    const auto p = static_cast<size_t>(peer);
    if (peer == in.rank) {
      plan.CopyInto(PlanBuilder::Input(0, own), PlanBuilder::Output(begins[p], own));
      continue;
    }
    for (const Segment& part : SegmentsOf(in.call.dtype, begins[p], in.call.counts[p])) {
      plan.CopyInto(plan.Receive(peer, Tag(Phase::kGather, part.index), part.count),
                    PlanBuilder::Output(part.first, part.count));
    }
  }
  return std::move(plan).Finish();
}

RankPlan DirectAllToAll(const PlanInput& in) {
  PlanBuilder plan;
  const std::vector<int64_t> sent = Begins(in.call.counts);
  const std::vector<int64_t> received = Begins(in.call.receive_counts);
  const auto own = static_cast<size_t>(in.rank);
  for (int turn = 1; turn < in.size; ++turn) {
    const int peer = (in.rank + turn) % in.size;
    const auto p = static_cast<size_t>(peer);
    for (const Segment& part : SegmentsOf(in.call.dtype, sent[p], in.call.counts[p])) {
      plan.Send(peer, Tag(Phase::kScatter, part.index), PlanBuilder::Input(part.first, part.count));
    }
  }
  // Peers are taken in the order in which they send: turn t receives from the rank t places before.
  for (int turn = 1; turn < in.size; ++turn) {
    const int peer = (in.rank + in.size - turn) % in.size;
    const auto p = static_cast<size_t>(peer);
    for (const Segment& part : SegmentsOf(in.call.dtype, received[p], in.call.receive_counts[p])) {
      plan.CopyInto(plan.Receive(peer, Tag(Phase::kScatter, part.index), part.count),
                    PlanBuilder::Output(part.first, part.count));
    }
  }
  plan.CopyInto(PlanBuilder::Input(sent[own], in.call.counts[own]),
                PlanBuilder::Output(received[own], in.call.counts[own]));
  return std::move(plan).Finish();
}

namespace {

// Spreads the news of arrivals: in round k, rank r tells rank r + 2^k that all ranks that r has
// heard of have come. `heard` is the Ref that this rank waits for before it tells anything.
void Disseminate(const PlanInput& in, Phase phase, Ref heard, PlanBuilder& plan) {
  for (int round = 0; (1 << round) < in.size; ++round) {
    const int ahead = 1 << round;
    plan.Send((in.rank + ahead) % in.size, Tag(phase, round), heard);
    const Ref frame = plan.Receive((in.rank - ahead + in.size) % in.size, Tag(phase, round), 0);
    const Ref both[] = {frame, heard};
    heard = plan.Join(both);  // frames of later rounds may come before frames of earlier rounds
  }
}

}  // namespace

RankPlan DisseminationBarrier(const PlanInput& in) {
  PlanBuilder plan;
  Disseminate(in, Phase::kScatter, PlanBuilder::Input(0, 0), plan);
  return std::move(plan).Finish();
}

// Writes the plan of an agreement. In an all-to-all a rank tells no other rank that its pairs fit
// before it has heard from all ranks. So no rank goes on if the counts of one pair differ.
RankPlan AgreementPlan(const PlanInput& in) {
  if (in.call.op != CollectiveOp::kAllToAll || in.size == 1) return DisseminationBarrier(in);
  PlanBuilder plan;
  std::vector<Ref> all;
  for (int turn = 1; turn < in.size; ++turn) {
    const int peer = (in.rank + turn) % in.size;
    plan.Send(peer, Tag(Phase::kScatter, 0), PlanBuilder::Input(0, 0));
    all.push_back(plan.Receive(peer, Tag(Phase::kScatter, 0), 0));
  }
  Disseminate(in, Phase::kBack, plan.Join(all), plan);
  return std::move(plan).Finish();
}

}  // namespace cohort
