#include "worker/collective/plan/plans.h"

#include <vector>

#include "common/base/check.h"
#include "common/runtime/kernel/half_floats.h"
#include "worker/collective/plan/segments.h"

namespace cohort {

namespace {

// Returns the plan of a group of one rank, which copies the input to the output.
RankPlan AlonePlan(const PlanInput& in) {
  PlanBuilder plan;
  const int64_t count = OutputElements(in.call, 0);
  plan.CopyInto(PlanBuilder::Input(0, count), PlanBuilder::Output(0, count));
  return std::move(plan).Finish();
}

RankPlan AllReducePlan(const PlanInput& in, CollectiveAlgorithm algorithm) {
  switch (algorithm) {
    case CollectiveAlgorithm::kOneShot:
      return OneShotAllReduce(in);
    case CollectiveAlgorithm::kRecursiveDoubling:
      return RecursiveDoublingAllReduce(in);
    case CollectiveAlgorithm::kRing:
      return RingAllReduce(in);
    case CollectiveAlgorithm::kHierarchical:
      return HierarchicalAllReduce(in);
    // All-reduce has no tree and no chain (CheckAlgorithm), so only two-shot is left.
    default:
      return TwoShotAllReduce(in);
  }
}

// Returns how many steps along the ring of ranks lead from rank `from` to rank `to`.
int Distance(int from, int to, int n) { return (to - from + n) % n; }

// Adds the summation of a segment along the ring: each rank adds its input to the sum that it
// receives, and sends the new sum to the next rank. The summation starts at rank `start` and ends
// at the rank before `start`. On this last rank, returns the final sum; on other ranks, the caller
// must not use the result. Partial sums are made at `partial_at`, or in new memory if it is null.
Ref SumOnTheWay(PlanBuilder& plan, const PlanInput& in, int start, uint32_t tag, const Ref& input,
                const Ref* partial_at, const Ref& output) {
  const int place = Distance(start, in.rank, in.size);
  const int next = (in.rank + 1) % in.size;
  const int previous = (in.rank + in.size - 1) % in.size;
  if (place == 0) {
    plan.Send(next, tag, input);
    return input;
  }
  // The rank at which the summation starts sends its input, which is not a partial sum.
  const Ref sum_before = place == 1 ? plan.Receive(previous, tag, input.count)
                                    : plan.ReceivePartial(previous, tag, input.count);
  const Ref operands[] = {sum_before, input};
  if (place == in.size - 1) return plan.CombineFinalInto(operands, output);
  const Ref sum = partial_at != nullptr ? plan.CombinePartialInto(operands, *partial_at)
                                        : plan.CombinePartial(operands);
  plan.Send(next, tag, sum);
  return sum;
}

// Adds the way of a finished segment along the ring, from its owner on: each rank copies the
// segment to its output, and all but the last send it to the next rank.
void HandRound(PlanBuilder& plan, const PlanInput& in, int owner, uint32_t tag, const Ref& value,
               const Ref& output) {
  const int place = Distance(owner, in.rank, in.size);
  const int next = (in.rank + 1) % in.size;
  if (place == 0) return plan.Send(next, tag, value);
  const Ref frame = plan.Receive((in.rank + in.size - 1) % in.size, tag, output.count);
  if (place < in.size - 1) plan.Send(next, tag, frame);
  plan.CopyInto(frame, output);
}

// A segment of one rank's part, in a call whose ranks have parts of different sizes (reduce-scatter
// or all-gather). The parts of all ranks lie one after another in the whole.
struct PartSegment {
  int owner = 0;
  int64_t index = 0;  // number of this segment among the segments of all parts
  int64_t in_part = 0;
  int64_t in_whole = 0;
  int64_t count = 0;
};

std::vector<PartSegment> PartSegments(const PlanInput& in) {
  std::vector<PartSegment> parts;
  int64_t first = 0;
  for (int owner = 0; owner < in.size; ++owner) {
    const int64_t count = in.call.counts[static_cast<size_t>(owner)];
    for (const Segment& segment : Segments(0, count, SegmentElements(in.call.dtype, count))) {
      parts.push_back({owner, static_cast<int64_t>(parts.size()), segment.first,
                       first + segment.first, segment.count});
    }
    first += count;
  }
  return parts;
}

// Returns where each rank's part begins in the whole; the last entry is the sum of all counts.
std::vector<int64_t> Begins(const std::vector<int64_t>& counts) {
  std::vector<int64_t> begins = {0};
  for (const int64_t count : counts) begins.push_back(begins.back() + count);
  return begins;
}

std::vector<Segment> SegmentsOf(DType dtype, int64_t first, int64_t count) {
  return Segments(first, count, SegmentElements(dtype, count));
}

// Adds the rounds by which every rank learns that all ranks have started the call: in round k, rank
// r tells rank r + 2^k of all ranks that r has heard of. The first round waits for `heard`.
void Disseminate(const PlanInput& in, Phase phase, Ref heard, PlanBuilder& plan) {
  for (int round = 0; (1 << round) < in.size; ++round) {
    const int ahead = 1 << round;
    plan.Send((in.rank + ahead) % in.size, Tag(phase, round), heard);
    const Ref frame = plan.Receive((in.rank - ahead + in.size) % in.size, Tag(phase, round), 0);
    const Ref both[] = {frame, heard};
    // The join waits for both, because the frame of a later round may arrive first.
    heard = plan.Join(both);
  }
}

// The place of a rank in a broadcast: the rank from which it gets the elements, or -1 if it is the
// call's root, and the ranks to which it sends them.
struct TreePlace {
  int parent = -1;
  std::vector<int> children;
};

// Returns the parent of a rank in TensorFlow's binary tree, or -1 for the call's root. If the root
// is not rank 0, its children are ranks 0 and 1, and any other rank r has the parent r/2 - 1.
int TreeParent(int rank, int root) {
  if (rank == root) return -1;
  if (root == 0) return (rank - 1) / 2;
  const int parent = rank / 2 - 1;
  return parent < 0 ? root : parent;
}

TreePlace BinaryTreePlace(const PlanInput& in) {
  TreePlace place;
  place.parent = TreeParent(in.rank, in.call.root);
  for (int rank = 0; rank < in.size; ++rank) {
    if (TreeParent(rank, in.call.root) == in.rank) place.children.push_back(rank);
  }
  return place;
}

// Returns the place of a rank in the chain of all ranks, which begins at the call's root.
TreePlace ChainPlace(const PlanInput& in) {
  TreePlace place;
  const int behind = (in.rank - in.call.root + in.size) % in.size;
  if (behind > 0) place.parent = (in.rank + in.size - 1) % in.size;
  if (behind < in.size - 1) place.children.push_back((in.rank + 1) % in.size);
  return place;
}

RankPlan BroadcastAlong(const PlanInput& in, const TreePlace& place) {
  PlanBuilder plan;
  const int64_t count = in.call.count;
  // A rank sends each segment on when it has come, so that all ranks of a chain work at the same
  // time.
  for (const Segment& segment : Segments(0, count, SegmentElements(in.call.dtype, count))) {
    const uint32_t tag = Tag(Phase::kGather, segment.index);
    const Ref value = place.parent < 0 ? PlanBuilder::Input(segment.first, segment.count)
                                       : plan.Receive(place.parent, tag, segment.count);
    for (const int child : place.children) plan.Send(child, tag, value);
    plan.CopyInto(value, PlanBuilder::Output(segment.first, segment.count));
  }
  return std::move(plan).Finish();
}

}  // namespace

RankPlan PlanOf(const PlanInput& in, CollectiveAlgorithm algorithm) {
  if (in.size == 1) return AlonePlan(in);
  const bool ring = algorithm == CollectiveAlgorithm::kRing;
  const bool tree = algorithm == CollectiveAlgorithm::kTree;
  switch (in.call.op) {
    case CollectiveOp::kAllReduce:
      return AllReducePlan(in, algorithm);
    case CollectiveOp::kReduceScatter:
      return ring ? RingReduceScatter(in) : DirectReduceScatter(in);
    case CollectiveOp::kAllGather:
      return ring ? RingAllGather(in) : DirectAllGather(in);
    case CollectiveOp::kBroadcast:
      return tree ? TreeBroadcast(in) : ChainBroadcast(in);
    case CollectiveOp::kReduce:
      return tree ? TreeReduce(in) : ScatteredReduce(in);
    case CollectiveOp::kAllToAll:
      return DirectAllToAll(in);
    case CollectiveOp::kBarrier:
      return DisseminationBarrier(in);
  }
  COHORT_CHECK(false, "an operation of the enumeration");
}

// Returns the plan of the ring: each rank sends 2(n-1) chunks to the next rank. Chunk c is summed
// along the ring from rank c to rank c-1, which divides a mean; then the sum goes along the ring
// once more. Partial sums that have the type of the output are made in the output. With input and
// output in one memory this is safe: when the sum of a chunk comes back, the next rank has read
// what this rank sent.
RankPlan RingAllReduce(const PlanInput& in) {
  PlanBuilder plan;
  const DType dtype = in.call.dtype;
  const int64_t chunk = TensorFlowChunkElements(dtype, in.call.count, in.size);
  // Partial sums of 16-bit floats travel as float32, so segments are measured in float32.
  const DType widest = IsHalf(dtype) ? DType::kFloat32 : dtype;
  const int64_t segment_elements = EvenSegmentElements(widest, chunk);
  const int64_t segments_max = (chunk + segment_elements - 1) / segment_elements;
  const int first_owner = in.rank;  // the chunk whose summation starts at this rank is sent first
  for (int turn = 0; turn < in.size; ++turn) {
    const int c = Distance(turn, first_owner, in.size);
    const Segment all = ChunkAt(in.call.count, chunk, c);
    if (all.count == 0) continue;
    for (const Segment& segment : Segments(all.first, all.count, segment_elements)) {
      // No two chunks have the same tags, because a chunk has at most segments_max segments.
      const int64_t index = c * segments_max + segment.index;
      const Ref input = PlanBuilder::Input(segment.first, segment.count);
      const Ref output = PlanBuilder::Output(segment.first, segment.count);
      const Ref sum = SumOnTheWay(plan, in, c, Tag(Phase::kScatter, index), input,
                                  IsHalf(dtype) ? nullptr : &output, output);
      const int owner = (c + in.size - 1) % in.size;
      HandRound(plan, in, owner, Tag(Phase::kGather, index), sum, output);
    }
  }
  return std::move(plan).Finish();
}

// Returns the plan of the ring's reduce-scatter: the sum for rank c starts at rank c+1 and ends,
// along the ring, at rank c.
RankPlan RingReduceScatter(const PlanInput& in) {
  PlanBuilder plan;
  for (const PartSegment& part : PartSegments(in)) {
    SumOnTheWay(plan, in, (part.owner + 1) % in.size, Tag(Phase::kScatter, part.index),
                PlanBuilder::Input(part.in_whole, part.count), nullptr,
                PlanBuilder::Output(part.in_part, part.count));
  }
  return std::move(plan).Finish();
}

RankPlan RingAllGather(const PlanInput& in) {
  PlanBuilder plan;
  for (const PartSegment& part : PartSegments(in)) {
    const Ref input = PlanBuilder::Input(part.in_part, part.count);
    const Ref output = PlanBuilder::Output(part.in_whole, part.count);
    if (part.owner == in.rank) plan.CopyInto(input, output);
    HandRound(plan, in, part.owner, Tag(Phase::kGather, part.index), input, output);
  }
  return std::move(plan).Finish();
}

RankPlan DirectReduceScatter(const PlanInput& in) {
  PlanBuilder plan;
  const std::vector<int64_t> begins = Begins(in.call.counts);
  // Each rank begins with the rank after its own, so that no rank gets the first frames of all
  // others.
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
    // The output has only this rank's part, so its positions count from the begin of this part.
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
  // Frames are received in the order in which they are sent: in turn t, from the rank t places
  // before this rank.
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

RankPlan DisseminationBarrier(const PlanInput& in) {
  PlanBuilder plan;
  Disseminate(in, Phase::kScatter, PlanBuilder::Input(0, 0), plan);
  return std::move(plan).Finish();
}

// Returns the plan by which ranks agree that they have started the same call. In an all-to-all, a
// rank tells others about the ranks that it has heard of only after it has heard from all ranks. So
// no rank completes the call if the counts of any two ranks do not fit.
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

RankPlan TreeBroadcast(const PlanInput& in) { return BroadcastAlong(in, BinaryTreePlace(in)); }

RankPlan ChainBroadcast(const PlanInput& in) { return BroadcastAlong(in, ChainPlace(in)); }

// Returns the plan of a reduce along the summation tree. The sum of a subtree is made at the first
// rank of the subtree, so the final sum is made at rank 0, which sends it to the destination rank
// of the reduce.
RankPlan TreeReduce(const PlanInput& in) {
  PlanBuilder plan;
  const int64_t count = in.call.count;
  const int root = in.call.root;
  for (const Segment& segment : Segments(0, count, SegmentElements(in.call.dtype, count))) {
    const uint32_t tag = Tag(Phase::kScatter, segment.index);
    const Ref output = PlanBuilder::Output(segment.first, segment.count);
    Ref value = PlanBuilder::Input(segment.first, segment.count);
    int level = 0;
    // On each level, the first rank of a subtree adds the sum of the subtree that follows.
    for (; in.rank % (2 << level) == 0 && (1 << level) < in.size; ++level) {
      const int peer = in.rank + (1 << level);
      if (peer >= in.size) continue;
      // A rank that is a subtree of its own sends its input, which is not a partial sum.
      const bool alone = level == 0 || peer + 1 == in.size;
      const Ref theirs = alone ? plan.Receive(peer, tag, segment.count)
                               : plan.ReceivePartial(peer, tag, segment.count);
      const Ref operands[] = {value, theirs};
      const bool last = in.rank == 0 && (2 << level) >= in.size;
      if (!last) {
        value = plan.CombinePartial(operands);
      } else {
        value = root == 0 ? plan.CombineFinalInto(operands, output) : plan.CombineFinal(operands);
      }
    }
    const uint32_t back = Tag(Phase::kBack, segment.index);
    // Every rank but rank 0 sends its sum to the first rank of the subtree before its own.
    if (in.rank != 0) plan.Send(in.rank - (1 << level), tag, value);
    if (in.rank == 0 && root != 0) plan.Send(root, back, value);
    if (in.rank == root && root != 0) plan.CopyInto(plan.Receive(0, back, segment.count), output);
  }
  return std::move(plan).Finish();
}

// Returns the plan of a reduce by chunks: each rank sums one chunk and sends the sum to the
// destination rank of the reduce.
RankPlan ScatteredReduce(const PlanInput& in) {
  PlanBuilder plan;
  const DType dtype = in.call.dtype;
  const int root = in.call.root;
  const int64_t chunk = EvenChunkElements(dtype, in.call.count, in.size);
  const int64_t segment_elements = SegmentElements(dtype, chunk);
  for (int turn = 0; turn < in.size; ++turn) {
    const int owner = (in.rank + turn) % in.size;
    const Segment all = ChunkAt(in.call.count, chunk, owner);
    for (const Segment& part : Segments(all.first, all.count, segment_elements)) {
      const Ref input = PlanBuilder::Input(part.first, part.count);
      const Ref output = PlanBuilder::Output(part.first, part.count);
      const uint32_t tag = Tag(Phase::kScatter, part.index);
      const uint32_t back = Tag(Phase::kBack, part.index);
      if (owner != in.rank) {
        plan.Send(owner, tag, input);
        if (in.rank == root) plan.CopyInto(plan.Receive(owner, back, part.count), output);
        continue;
      }
      std::vector<Ref> operands;
      for (int peer = 0; peer < in.size; ++peer) {
        operands.push_back(peer == in.rank ? input : plan.Receive(peer, tag, part.count));
      }
      if (in.rank == root) {
        plan.CombineFinalInto(operands, output);
      } else {
        plan.Send(root, back, plan.CombineFinal(operands));
      }
    }
  }
  return std::move(plan).Finish();
}

}  // namespace cohort
