#include <algorithm>
#include <bit>

#include "worker/collective/plan/plans.h"
#include "worker/collective/plan/segments.h"

namespace cohort {

int RanksPerHostBlock(const HostLayout& hosts) {
  const std::vector<int>& host_of = hosts.host_of;
  if (host_of.empty() || host_of.back() == 0) return 0;
  const auto block = static_cast<int>(std::count(host_of.begin(), host_of.end(), 0));
  // Only blocks of a power of two of ranks are whole subtrees of the summation tree.
  if (block < 2 || !std::has_single_bit(static_cast<unsigned>(block))) return 0;
  for (size_t rank = 0; rank < host_of.size(); ++rank) {
    if (host_of[rank] != static_cast<int>(rank) / block) return 0;
  }
  return block;
}

namespace {

// The layout of a group: hosts of `block` ranks each, the last host perhaps with fewer. The data
// are cut into as many lanes as a full host has ranks. On each host lane i belongs to the host's
// i-th rank; a host with fewer ranks deals the remaining lanes out to its ranks in turn.
struct Hosts {
  int size = 0;   // the size of the group
  int block = 1;  // the ranks of a full host

  int count() const { return (size + block - 1) / block; }
  int HostOf(int rank) const { return rank / block; }
  int FirstOf(int host) const { return host * block; }
  int RanksOf(int host) const { return std::min(block, size - host * block); }
  int OwnerOf(int lane, int host) const { return FirstOf(host) + lane % RanksOf(host); }
};

// A range of elements that is summed on each host by the owner of its lane, and then summed across
// hosts by the owner of the lane on the host `home`. Thread-compatible.
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
    // A rank that does not own the lane sends its input to the owner and gets the total back.
    if (in_.rank != owner) {
      plan_.Send(owner, Tag(Phase::kLocal, index_), input_);
      plan_.CopyInto(plan_.Receive(owner, Tag(Phase::kBack, index_), input_.count), output_);
      return;
    }
    // The owner sums its host, then sums across hosts, and hands the total to the ranks of its
    // host.
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

  // Puts the sum of all hosts into the output, and returns the Ref where the sum can be read.
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

RankPlan HierarchicalAllReduce(const PlanInput& in) {
  PlanBuilder plan;
  const Hosts hosts{in.size, RanksPerHostBlock(in.hosts)};
  const int chunks = hosts.block * hosts.count();
  const int64_t chunk = EvenChunkElements(in.call.dtype, in.call.count, chunks);
  const int64_t segment_elements = SegmentElements(in.call.dtype, chunk);
  int64_t index = 0;
  for (int i = 0; i < chunks; ++i) {
    // Chunk i belongs to lane i % block, and host i / block sums it across hosts.
    const Segment all = ChunkAt(in.call.count, chunk, i);
    // Empty chunks need no frames, but a call without elements still needs one unit.
    if (all.count == 0 && i > 0) continue;
    Unit unit(plan, in, hosts, i % hosts.block, i / hosts.block);
    for (const Segment& segment : Segments(all.first, all.count, segment_elements)) {
      unit.Add(segment, index++);
    }
  }
  return std::move(plan).Finish();
}

}  // namespace cohort
