#include "worker/collective/plan/plans.h"
#include "worker/collective/plan/segments.h"

namespace cohort {

namespace {

// The place of a rank in the tree of a broadcast: the rank from which it gets elements (-1 for the
// root), and the ranks to which it sends the elements.
struct TreePlace {
  int parent = -1;
  std::vector<int> children;
};

// Returns the parent of a rank in TensorFlow's binary tree. A root other than rank 0 has ranks 0
// and 1 as children; any other rank r then has parent r/2 - 1.
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

// Returns the place of a rank in the chain that goes from the root round the ring of ranks.
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
  // A rank sends each segment on as soon as it comes, so the ranks of a chain all work at once.
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

// Writes the plan of a reduce along the tree. The sum of a subtree is made at the subtree's first
// rank, so the last sum is made at rank 0, which sends it to the root.
RankPlan TreeReduce(const PlanInput& in) {
  PlanBuilder plan;
  const int64_t count = in.call.count;
  const int root = in.call.root;
  for (const Segment& segment : Segments(0, count, SegmentElements(in.call.dtype, count))) {
    const uint32_t tag = Tag(Phase::kScatter, segment.index);
    const Ref output = PlanBuilder::Output(segment.first, segment.count);
    Ref value = PlanBuilder::Input(segment.first, segment.count);
    int level = 0;
    // On each level, the first rank of a subtree takes in the subtree that follows its own.
    for (; in.rank % (2 << level) == 0 && (1 << level) < in.size; ++level) {
      const int peer = in.rank + (1 << level);
      if (peer >= in.size) continue;
      // A peer that is the only rank of its subtree sends its input, which is not a partial sum.
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
    // Every rank but 0 hands its sum to the first rank of the subtree before its own.
    if (in.rank != 0) plan.Send(in.rank - (1 << level), tag, value);
    if (in.rank == 0 && root != 0) plan.Send(root, back, value);
    if (in.rank == root && root != 0) plan.CopyInto(plan.Receive(0, back, segment.count), output);
  }
  return std::move(plan).Finish();
}

// Writes the plan of a reduce by chunks: each rank sums one chunk, and the root gathers the sums.
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
