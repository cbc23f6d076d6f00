#include "worker/collective/plan/plans.h"
#include "worker/collective/plan/segments.h"

namespace cohort {

namespace {

// A rank's place in the tree of a broadcast: the rank that it gets elements from (-1: it is the
// root), and those that it hands them to.
struct TreePlace {
  int parent = -1;
  std::vector<int> children;
};

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

RankPlan TreeBroadcast(const PlanInput& in) { return BroadcastAlong(in, BinaryTreePlace(in)); }

RankPlan ChainBroadcast(const PlanInput& in) { return BroadcastAlong(in, ChainPlace(in)); }

// The sum of a subtree is made at its first rank, the last one at rank 0, which hands it to the
// root.
RankPlan TreeReduce(const PlanInput& in) {
  PlanBuilder plan;
  const int64_t count = in.call.count;
  const int root = in.call.root;
  for (const Segment& segment : Segments(0, count, SegmentElements(in.call.dtype, count))) {
    const uint32_t tag = Tag(Phase::kScatter, segment.index);
    const Ref output = PlanBuilder::Output(segment.first, segment.count);
    Ref value = PlanBuilder::Input(segment.first, segment.count);
    int level = 0;
    for (; in.rank % (2 << level) == 0 && (1 << level) < in.size; ++level) {
      const int peer = in.rank + (1 << level);
      if (peer >= in.size) continue;
      // A peer that is the only rank of its subtree sends its input as it is.
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
    if (in.rank != 0) plan.Send(in.rank - (1 << level), tag, value);
    if (in.rank == 0 && root != 0) plan.Send(root, back, value);
    if (in.rank == root && root != 0) plan.CopyInto(plan.Receive(0, back, segment.count), output);
  }
  return std::move(plan).Finish();
}

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
