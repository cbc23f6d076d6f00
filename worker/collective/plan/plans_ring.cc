#include <vector>

#include "common/runtime/kernel/half_floats.h"
#include "worker/collective/plan/plans.h"
#include "worker/collective/plan/segments.h"

namespace cohort {

namespace {

// Returns how many places `to` comes after `from` on the ring.
int Distance(int from, int to, int n) { return (to - from + n) % n; }

// Passes a segment along the ring and adds the input of each rank on the way. The segment starts at
// rank `start` and ends at the rank before `start`. Returns the final sum on that last rank; on
// other ranks the caller must not use the returned Ref.
Ref SumOnTheWay(PlanBuilder& plan, const PlanInput& in, int start, uint32_t tag, const Ref& input,
                const Ref* partial_at, const Ref& output) {
  const int place = Distance(start, in.rank, in.size);
  const int next = (in.rank + 1) % in.size;
  const int previous = (in.rank + in.size - 1) % in.size;
  if (place == 0) {
    plan.Send(next, tag, input);
    return input;
  }
  // The first rank sends its input, which is not a partial sum.
  const Ref sum_before = place == 1 ? plan.Receive(previous, tag, input.count)
                                    : plan.ReceivePartial(previous, tag, input.count);
  const Ref operands[] = {sum_before, input};
  if (place == in.size - 1) return plan.CombineFinalInto(operands, output);
  const Ref sum = partial_at != nullptr ? plan.CombinePartialInto(operands, *partial_at)
                                        : plan.CombinePartial(operands);
  plan.Send(next, tag, sum);
  return sum;
}

// Passes a finished segment along the ring: each rank copies the segment to its output and sends
// the received frame on.
void HandRound(PlanBuilder& plan, const PlanInput& in, int owner, uint32_t tag, const Ref& value,
               const Ref& output) {
  const int place = Distance(owner, in.rank, in.size);
  const int next = (in.rank + 1) % in.size;
  if (place == 0) return plan.Send(next, tag, value);
  const Ref frame = plan.Receive((in.rank + in.size - 1) % in.size, tag, output.count);
  if (place < in.size - 1) plan.Send(next, tag, frame);
  plan.CopyInto(frame, output);
}

// A segment of the part of one rank. The parts of all ranks may have different sizes, and follow
// each other in the whole.
struct PartSegment {
  int owner = 0;
  int64_t index = 0;  // the index among the segments of all parts
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

}  // namespace

// Writes the plan of the ring: each rank sends 2(n-1) chunks to the next rank. Chunk c is summed
// from rank c round to rank c-1, which divides a mean and sends the chunk round again. If the
// output has the type of the partial sums, the output is also the memory for them. This is safe,
// because the next rank has added to the elements that this rank sent before the whole chunk comes
// back.
RankPlan RingAllReduce(const PlanInput& in) {
  PlanBuilder plan;
  const DType dtype = in.call.dtype;
  const int64_t chunk = TensorFlowChunkElements(dtype, in.call.count, in.size);
  // Partial sums of 16-bit floats travel as float32, so segments are measured in float32.
  const DType widest = IsHalf(dtype) ? DType::kFloat32 : dtype;
  const int64_t segment_elements = EvenSegmentElements(widest, chunk);
  const int64_t segments_max = (chunk + segment_elements - 1) / segment_elements;
  const int first_owner = in.rank;  // the own chunk comes first: its sum starts at this rank
  for (int turn = 0; turn < in.size; ++turn) {
    const int c = Distance(turn, first_owner, in.size);
    const Segment all = ChunkAt(in.call.count, chunk, c);
    if (all.count == 0) continue;
    for (const Segment& segment : Segments(all.first, all.count, segment_elements)) {
      // The tags of two chunks must differ; a chunk has at most segments_max segments.
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

// Writes the plan of reduce-scatter: the part of rank c is summed from rank c+1 round to rank c.
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

}  // namespace cohort
