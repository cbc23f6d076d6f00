#include <algorithm>
#include <bit>

#include "worker/collective/plan/plans.h"
#include "worker/collective/plan/segments.h"

namespace cohort {

namespace {

// A subtree of the summation tree: the 2^level ranks from `base` on, or fewer at the end of the
// group.
struct Block {
  int base = 0;
  int size = 0;
};

Block BlockAt(int base, int level, int n) { return {base, std::min(1 << level, n - base)}; }

// Adds one level of recursive doubling and returns the sum of this rank's block of ranks and of the
// block's sibling in the tree. The rank at place i of its block gets the sum of the sibling from
// the rank at place i modulo the sibling's size.
Ref Exchange(PlanBuilder& plan, const PlanInput& in, int level, uint32_t segment, const Ref& value,
             const Ref& output) {
  const int base = in.rank >> level << level;
  const int other_base = base ^ 1 << level;
  // A block at the end of the group may have no sibling on this level.
  if (other_base >= in.size) return value;
  const Block own = BlockAt(base, level, in.size);
  const Block other = BlockAt(other_base, level, in.size);
  const uint32_t tag =
      // A tree over kRanksMax ranks has fewer than 16 levels, so 16 tags for each segment suffice.
      Tag(Phase::kScatter, static_cast<int64_t>(segment) * 16 + level);
  const int place = in.rank - own.base;
  // If the sibling has more ranks than the own block, a rank sends to several ranks of the sibling.
  for (int i = place; i < other.size; i += own.size) plan.Send(other.base + i, tag, value);
  const int source = other.base + place % other.size;
  // A block of one rank sends its input, which is not a partial sum, on every level.
  const Ref theirs = other.size > 1 ? plan.ReceivePartial(source, tag, value.count)
                                    : plan.Receive(source, tag, value.count);
  // The operands are in the order of the ranks, as the summation tree demands.
  const Ref operands[] = {base < other_base ? value : theirs, base < other_base ? theirs : value};
  const bool last = (2 << level) >= in.size;
  return last ? plan.CombineFinalInto(operands, output) : plan.CombinePartial(operands);
}

// The hosts of a group, of `block` ranks each; the last host may have fewer. The elements are
// divided into `block` shares, which the code calls lanes: on each host, share i is summed by the
// host's i-th rank. A host with fewer ranks gives the remaining shares to its ranks in turn.
struct Hosts {
  int size = 0;   // number of ranks in the group
  int block = 1;  // number of ranks on a full host

  int count() const { return (size + block - 1) / block; }
  int HostOf(int rank) const { return rank / block; }
  int FirstOf(int host) const { return host * block; }
  int RanksOf(int host) const { return std::min(block, size - host * block); }
  int OwnerOf(int lane, int host) const { return FirstOf(host) + lane % RanksOf(host); }
};

// A chunk of the elements that is summed in two steps by the ranks that own its share (`lane`, see
// Hosts): the owner on each host sums over this host, then the owner on host `home` sums over all
// hosts. Thread-compatible.
class Unit {
 public:
  Unit(PlanBuilder& plan, const PlanInput& in, const Hosts& hosts, int lane, int home)
      : plan_(plan), in_(in), hosts_(hosts), lane_(lane), home_(home) {}

  void Add(const Segment& segment, int64_t index) {
    input_ = PlanBuilder::Input(segment.first, segment.count);
    output_ = PlanBuilder::Output(segment.first, segment.count);
    index_ = index;
    const int host = hosts_.HostOf(in_.rank);
    const int owner = hosts_.OwnerOf(lane_, host);
    // A rank that does not own the share sends its input to the owner on its host, and gets the
    // total back.
    if (in_.rank != owner) {
      plan_.Send(owner, Tag(Phase::kLocal, index_), input_);
      plan_.CopyInto(plan_.Receive(owner, Tag(Phase::kBack, index_), input_.count), output_);
      return;
    }
    // The owner sums the inputs of its host, takes part in the sum over all hosts, and sends the
    // total to the other ranks of its host.
    const Ref result = AcrossHosts(host, SumOfHost(host));
    for (int rank = hosts_.FirstOf(host); rank < hosts_.FirstOf(host) + hosts_.RanksOf(host);
         ++rank) {
      if (rank != in_.rank) plan_.Send(rank, Tag(Phase::kBack, index_), result);
    }
  }

 private:
  Ref SumOfHost(int host) {
    if (hosts_.RanksOf(host) == 1) return input_;
    std::vector<Ref> operands;
    for (int i = 0; i < hosts_.RanksOf(host); ++i) {
      const int rank = hosts_.FirstOf(host) + i;
      operands.push_back(rank == in_.rank
                             ? input_
                             : plan_.Receive(rank, Tag(Phase::kLocal, index_), input_.count));
    }
    return plan_.CombinePartial(operands);
  }

  // Adds the sum over all hosts, which goes to the output. Returns the Ref by which the total can
  // be read.
  Ref AcrossHosts(int host, const Ref& sum) {
    if (host != home_) {
      const int home_owner = hosts_.OwnerOf(lane_, home_);
      plan_.Send(home_owner, Tag(Phase::kCross, index_), sum);
      const Ref total = plan_.Receive(home_owner, Tag(Phase::kGather, index_), input_.count);
      plan_.CopyInto(total, output_);
      return total;
    }
    std::vector<Ref> operands;
    for (int other = 0; other < hosts_.count(); ++other) {
      operands.push_back(other == host ? sum : SumFrom(other));
    }
    const Ref total = plan_.CombineFinalInto(operands, output_);
    for (int other = 0; other < hosts_.count(); ++other) {
      if (other == host) continue;
      plan_.Send(hosts_.OwnerOf(lane_, other), Tag(Phase::kGather, index_), total);
    }
    return total;
  }

  Ref SumFrom(int host) {
    const int owner = hosts_.OwnerOf(lane_, host);
    const uint32_t tag = Tag(Phase::kCross, index_);
    // A host with a single rank sends its input, which is not a partial sum.
    return hosts_.RanksOf(host) == 1 ? plan_.Receive(owner, tag, input_.count)
                                     : plan_.ReceivePartial(owner, tag, input_.count);
  }

  PlanBuilder& plan_;
  const PlanInput& in_;
  const Hosts& hosts_;
  const int lane_;
  const int home_;
  Ref input_;
  Ref output_;
  int64_t index_ = 0;
};

}  // namespace

// Returns the plan of one-shot: every rank sends its input to all other ranks, and sums the inputs
// of all ranks. A copy of the input is sent, because input and output may be the same memory, and
// another rank may still read what this rank sent when the sum is written.
RankPlan OneShotAllReduce(const PlanInput& in) {
  PlanBuilder plan;
  const int64_t count = in.call.count;
  for (const Segment& segment : Segments(0, count, SegmentElements(in.call.dtype, count))) {
    const Ref input = PlanBuilder::Input(segment.first, segment.count);
    const Ref own = plan.Copy(input);
    std::vector<Ref> operands(static_cast<size_t>(in.size), input);
    for (int turn = 1; turn < in.size; ++turn) {
      plan.Send((in.rank + turn) % in.size, Tag(Phase::kScatter, segment.index), own);
    }
    for (int peer = 0; peer < in.size; ++peer) {
      if (peer == in.rank) continue;
      operands[static_cast<size_t>(peer)] =
          plan.Receive(peer, Tag(Phase::kScatter, segment.index), segment.count);
    }
    // This rank's own operand is read from the copy as well, so that the sum waits until the input
    // has been copied.
    operands[static_cast<size_t>(in.rank)] = own;
    plan.CombineFinalInto(operands, PlanBuilder::Output(segment.first, segment.count));
  }
  return std::move(plan).Finish();
}

// Returns the plan of two-shot: rank i owns chunk i. Every rank sends its elements of a chunk to
// the chunk's owner, and each owner sends the sum to all ranks. With input and output in one memory
// this is safe: a rank writes a chunk of the output when the owner's sum comes, and the owner has
// then read what this rank sent.
RankPlan TwoShotAllReduce(const PlanInput& in) {
  PlanBuilder plan;
  const DType dtype = in.call.dtype;
  const int64_t chunk = EvenChunkElements(dtype, in.call.count, in.size);
  const int64_t segment_elements = EvenSegmentElements(dtype, chunk);
  std::vector<std::vector<Segment>> chunks;
  for (int i = 0; i < in.size; ++i) {
    const Segment all = ChunkAt(in.call.count, chunk, i);
    chunks.push_back(Segments(all.first, all.count, segment_elements));
  }
  // All owners get their first segments before any owner gets a second, so that all can begin
  // early. Each rank begins with another owner, so that no owner gets the first frames of all
  // ranks.
  const size_t longest = chunks[0].size();
  for (size_t s = 0; s < longest; ++s) {
    for (int turn = 1; turn < in.size; ++turn) {
      const int owner = (in.rank + turn) % in.size;
      const std::vector<Segment>& of_owner = chunks[static_cast<size_t>(owner)];
      if (s >= of_owner.size()) continue;
      plan.Send(owner, Tag(Phase::kScatter, of_owner[s].index),
                PlanBuilder::Input(of_owner[s].first, of_owner[s].count));
    }
  }
  // This rank sums the chunk that it owns, and sends the sums to all other ranks.
  for (const Segment& own : chunks[static_cast<size_t>(in.rank)]) {
    std::vector<Ref> operands;
    for (int peer = 0; peer < in.size; ++peer) {
      operands.push_back(peer == in.rank
                             ? PlanBuilder::Input(own.first, own.count)
                             : plan.Receive(peer, Tag(Phase::kScatter, own.index), own.count));
    }
    const Ref sum = plan.CombineFinalInto(operands, PlanBuilder::Output(own.first, own.count));
    for (int turn = 1; turn < in.size; ++turn) {
      plan.Send((in.rank + turn) % in.size, Tag(Phase::kGather, own.index), sum);
    }
  }
  // The sums of the other owners are copied to the output.
  for (int owner = 0; owner < in.size; ++owner) {
    if (owner == in.rank) continue;
    for (const Segment& segment : chunks[static_cast<size_t>(owner)]) {
      plan.CopyInto(plan.Receive(owner, Tag(Phase::kGather, segment.index), segment.count),
                    PlanBuilder::Output(segment.first, segment.count));
    }
  }
  return std::move(plan).Finish();
}

RankPlan RecursiveDoublingAllReduce(const PlanInput& in) {
  PlanBuilder plan;
  const int64_t count = in.call.count;
  for (const Segment& segment : Segments(0, count, SegmentElements(in.call.dtype, count))) {
    const Ref output = PlanBuilder::Output(segment.first, segment.count);
    // A copy of the input is sent, because another rank may read it after this rank has written its
    // output.
    Ref value = plan.Copy(PlanBuilder::Input(segment.first, segment.count));
    for (int level = 0; (1 << level) < in.size; ++level) {
      value = Exchange(plan, in, level, segment.index, value, output);
    }
  }
  return std::move(plan).Finish();
}

int RanksPerHostBlock(const HostLayout& hosts) {
  const std::vector<int>& host_of = hosts.host_of;
  if (host_of.empty() || host_of.back() == 0) return 0;
  const auto block = static_cast<int>(std::count(host_of.begin(), host_of.end(), 0));
  // Only a power of two of adjacent ranks is a whole subtree of the summation tree.
  if (block < 2 || !std::has_single_bit(static_cast<unsigned>(block))) return 0;
  for (size_t rank = 0; rank < host_of.size(); ++rank) {
    if (host_of[rank] != static_cast<int>(rank) / block) return 0;
  }
  return block;
}

RankPlan HierarchicalAllReduce(const PlanInput& in) {
  PlanBuilder plan;
  const Hosts hosts{in.size, RanksPerHostBlock(in.hosts)};
  const int chunks = hosts.block * hosts.count();
  const int64_t chunk = EvenChunkElements(in.call.dtype, in.call.count, chunks);
  const int64_t segment_elements = SegmentElements(in.call.dtype, chunk);
  int64_t index = 0;
  for (int i = 0; i < chunks; ++i) {
    // Chunk i belongs to share i % block, and host i / block sums it over all hosts.
    const Segment all = ChunkAt(in.call.count, chunk, i);
    // Empty chunks need no frames, but the frames of a call without elements tell that ranks have
    // started.
    if (all.count == 0 && i > 0) continue;
    Unit unit(plan, in, hosts, i % hosts.block, i / hosts.block);
    for (const Segment& segment : Segments(all.first, all.count, segment_elements)) {
      unit.Add(segment, index++);
    }
  }
  return std::move(plan).Finish();
}

}  // namespace cohort
