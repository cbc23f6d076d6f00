#include "worker/collective/nccl/nccl_pieces.h"

#include <algorithm>

namespace cohort {

namespace {

using Kind = NcclStep::Kind;

// Returns the number of elements that one piece takes: of the whole call, or of each rank's part if
// the call has parts.
int64_t StepOf(CollectiveOp op, int size, int64_t elements_max) {
  return HasCounts(op) ? std::max(elements_max / size, int64_t{1}) : elements_max;
}

std::vector<int64_t> BeginsOf(const std::vector<int64_t>& counts) {
  std::vector<int64_t> begins;
  int64_t begin = 0;
  for (const int64_t count : counts) {
    begins.push_back(begin);
    begin += count;
  }
  return begins;
}

// Returns the number of elements in the longest part of the call, which decides the number of
// pieces. A call has one part for each rank, or a single part.
int64_t Longest(const CollectiveCall& call) {
  if (call.op == CollectiveOp::kBarrier) return 0;
  if (!HasCounts(call.op)) return call.count;
  int64_t longest = 0;
  for (const int64_t count : call.counts) longest = std::max(longest, count);
  if (call.op != CollectiveOp::kAllToAll) return longest;
  for (const int64_t count : call.receive_counts) longest = std::max(longest, count);
  return longest;
}

// Returns the number of elements of each rank's part that are in piece number `turn`.
std::vector<int64_t> LeftOf(const std::vector<int64_t>& counts, int64_t turn, int64_t step) {
  std::vector<int64_t> left;
  for (const int64_t count : counts) {
    left.push_back(std::clamp(count - turn * step, int64_t{0}, step));
  }
  return left;
}

bool AllEqual(const std::vector<int64_t>& numbers) {
  return std::all_of(numbers.begin(), numbers.end(),
                     [&](int64_t number) { return number == numbers[0]; });
}

// Returns the copies of one piece: the elements of all parts lie in staging memory one after
// another.
std::vector<NcclCopy> CopiesOf(const std::vector<int64_t>& begins, const std::vector<int64_t>& left,
                               int64_t first) {
  std::vector<NcclCopy> copies;
  int64_t staged = 0;
  for (size_t part = 0; part < left.size(); ++part) {
    if (left[part] > 0) copies.push_back({begins[part] + first, staged, left[part]});
    staged += left[part];
  }
  return copies;
}

}  // namespace

NcclPieces::NcclPieces(const CollectiveCall& call, int rank, int size, int64_t elements_max)
    : call_(call),
      rank_(rank),
      size_(size),
      step_(StepOf(call.op, size, elements_max)),
      begins_(BeginsOf(call.counts)),
      receive_begins_(BeginsOf(call.receive_counts)),
      count_((Longest(call) + step_ - 1) / step_) {}

NcclPiece NcclPieces::At(int64_t index) const {
  switch (call_.op) {
    case CollectiveOp::kReduceScatter:
      return ReduceScatter(index);
    case CollectiveOp::kAllGather:
      return AllGather(index);
    case CollectiveOp::kAllToAll:
      return AllToAll(index);
    default:
      return Whole(index * step_, std::min(step_, call_.count - index * step_));
  }
}

NcclPiece NcclPieces::Whole(int64_t first, int64_t count) const {
  NcclPiece piece;
  const NcclCopy all = {first, 0, count};
  const bool broadcast = call_.op == CollectiveOp::kBroadcast;
  const bool reduce = call_.op == CollectiveOp::kReduce;
  // Only the call's root has input in a broadcast, and output in a reduce.
  if (!broadcast || rank_ == call_.root) piece.in.push_back(all);
  if (!reduce || rank_ == call_.root) piece.out.push_back(all);
  const Kind kind = broadcast ? Kind::kBroadcast : reduce ? Kind::kReduce : Kind::kAllReduce;
  piece.steps.push_back({kind, call_.root, 0, 0, count});
  piece.staged_in = count;
  piece.staged_out = count;
  return piece;
}

NcclPiece NcclPieces::ReduceScatter(int64_t turn) const {
  NcclPiece piece;
  const std::vector<int64_t> left = LeftOf(call_.counts, turn, step_);
  const int64_t own = left[static_cast<size_t>(rank_)];
  piece.in = CopiesOf(begins_, left, turn * step_);
  if (own > 0) piece.out.push_back({turn * step_, 0, own});
  piece.staged_in = SumOfCounts(left);
  piece.staged_out = own;
  // If all parts have equally many elements left, one reduce-scatter of NCCL suffices. Otherwise
  // each part needs a reduce.
  if (AllEqual(left)) {
    piece.steps.push_back({Kind::kReduceScatter, 0, 0, 0, own});
    return piece;
  }
  int64_t staged = 0;
  for (int part = 0; part < size_; ++part) {
    const int64_t count = left[static_cast<size_t>(part)];
    if (count > 0) piece.steps.push_back({Kind::kReduce, part, staged, 0, count});
    staged += count;
  }
  return piece;
}

NcclPiece NcclPieces::AllGather(int64_t turn) const {
  NcclPiece piece;
  const std::vector<int64_t> left = LeftOf(call_.counts, turn, step_);
  const int64_t own = left[static_cast<size_t>(rank_)];
  if (own > 0) piece.in.push_back({turn * step_, 0, own});
  piece.out = CopiesOf(begins_, left, turn * step_);
  piece.staged_in = own;
  piece.staged_out = SumOfCounts(left);
  // If all parts have equally many elements left, one all-gather of NCCL suffices. Otherwise each
  // part needs a broadcast.
  if (AllEqual(left)) {
    piece.steps.push_back({Kind::kAllGather, 0, 0, 0, own});
    return piece;
  }
  int64_t staged = 0;
  for (int part = 0; part < size_; ++part) {
    const int64_t count = left[static_cast<size_t>(part)];
    if (count > 0) piece.steps.push_back({Kind::kBroadcast, part, 0, staged, count});
    staged += count;
  }
  return piece;
}

NcclPiece NcclPieces::AllToAll(int64_t turn) const {
  NcclPiece piece;
  const std::vector<int64_t> sent = LeftOf(call_.counts, turn, step_);
  const std::vector<int64_t> received = LeftOf(call_.receive_counts, turn, step_);
  piece.in = CopiesOf(begins_, sent, turn * step_);
  piece.out = CopiesOf(receive_begins_, received, turn * step_);
  // NCCL runs the sends and receives of a group together, so their order does not matter.
  for (int peer = 0; peer < size_; ++peer) {
    const auto p = static_cast<size_t>(peer);
    if (sent[p] > 0) piece.steps.push_back({Kind::kSend, peer, piece.staged_in, 0, sent[p]});
    piece.staged_in += sent[p];
    if (received[p] > 0) {
      piece.steps.push_back({Kind::kReceive, peer, 0, piece.staged_out, received[p]});
    }
    piece.staged_out += received[p];
  }
  return piece;
}

}  // namespace cohort
