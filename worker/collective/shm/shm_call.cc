#include "worker/collective/shm/shm_call.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/status.h"
#include "common/wire/error_detail.h"
#include "worker/collective/collective_errors.h"
#include "worker/collective/reduce_tree.h"

namespace cohort {

namespace {

constexpr int64_t kLineBytes = 64;
// The number of bytes of each rank's input that are reduced at a time. The blocks of all ranks stay
// in the second-level cache until the result has been written to all outputs.
constexpr size_t kBlockBytes = size_t{32} << 10;
// The offset of the staging memory in a rank's arena, after the two slots.
constexpr size_t kStagingAt = 2 * kSlotBytes;

int64_t RoundUp(int64_t count, int64_t unit) { return (count + unit - 1) / unit * unit; }

// Returns the number of elements in the largest input of any rank. In an all-to-all no rank knows
// the counts of the others, so the result is a number that is too large for any slot.
int64_t KnownElements(const CollectiveCall& call) {
  switch (call.op) {
    case CollectiveOp::kAllReduce:
    case CollectiveOp::kReduce:
    case CollectiveOp::kBroadcast:
      return call.count;
    case CollectiveOp::kReduceScatter:
      return SumOfCounts(call.counts);
    case CollectiveOp::kAllGather:
      return *std::max_element(call.counts.begin(), call.counts.end());
    case CollectiveOp::kAllToAll:
      return std::numeric_limits<int64_t>::max() / 16;
    case CollectiveOp::kBarrier:
      return 0;
  }
  return 0;
}

// Returns true if the inputs of all ranks are small enough for slots. Every rank gets the same
// result from its own call.
bool GoesThroughSlots(const CollectiveCall& call, const ShmPlan& plan) {
  return KnownElements(call) <=
         static_cast<int64_t>(plan.slot_bytes_max / std::max(ElementSize(call.dtype), size_t{1}));
}

}  // namespace

ShmCallRun::ShmCallRun(ShmBarrier& barrier, const ShmArena& arena, const CollectiveCall& call,
                       uint64_t sequence)
    : barrier_(barrier),
      arena_(arena),
      call_(call),
      sequence_(sequence),
      element_(std::max(ElementSize(call.dtype), size_t{1})),
      divisor_(call.reduce == ReduceOp::kMean ? barrier.size() : 1),
      mine_(barrier.segment().block(barrier.rank()).calls[sequence % 2]) {
  // mine_ describes this rank's call; the other ranks read it after the first barrier of the call.
  mine_.sequence = sequence;
  mine_.fingerprint = FingerprintOf(call);
  mine_.input = mine_.work = kOwnBytes;
  mine_.input_staged = mine_.work_staged = 0;
}

absl::Status ShmCallRun::Run() {
  if (call_.op == CollectiveOp::kBarrier) return Meet();
  return GoesThroughSlots(call_, barrier_.segment().plan()) ? RunThroughSlots() : RunInPieces();
}

// Waits at the first barrier of a call, and checks that the calls of all ranks fit together.
// Errors: those of Wait(); the cause of an abort for calls that do not fit.
absl::Status ShmCallRun::Meet() {
  RETURN_IF_ERROR(barrier_.Wait());
  for (int rank = 0; rank < barrier_.size(); ++rank) {
    const ShmCall& other = barrier_.segment().block(rank).calls[sequence_ % 2];
    if (other.sequence != sequence_) return Refuse(rank, "another operation's number");
    if (other.fingerprint != mine_.fingerprint) return Mismatch();
  }
  return absl::OkStatus();
}

// Ends the group with the error that two ranks made different calls. All ranks run Mismatch()
// together, because each rank compares its call with the calls of all others.
absl::Status ShmCallRun::Mismatch() {
  const ShmSegment& segment = barrier_.segment();
  const std::string words = DescribeCall(call_);
  ShmText& text = segment.block(barrier_.rank()).mismatch;
  text.message_bytes = static_cast<uint32_t>(std::min(words.size(), ShmText::kBytesMax / 4));
  std::memcpy(text.bytes.data(), words.data(), text.message_bytes);
  // After this barrier, every rank can read the descriptions of all ranks' calls.
  RETURN_IF_ERROR(barrier_.Wait());
  const auto call_of = [&](int rank) {
    const ShmText& theirs = segment.block(rank).mismatch;
    const size_t bytes = std::min<size_t>(theirs.message_bytes, ShmText::kBytesMax);
    return RankCall{rank, std::string(theirs.bytes.data(), bytes)};
  };
  const auto fingerprint_of = [&](int rank) {
    return segment.block(rank).calls[sequence_ % 2].fingerprint;
  };
  // All ranks report the same pair of calls: that of rank 0, and that of the first rank that
  // differs.
  int other = 1;
  while (other + 1 < barrier_.size() && fingerprint_of(other) == fingerprint_of(0)) ++other;
  return barrier_.Abort(MismatchError(sequence_, call_of(0), call_of(other)));
}

absl::Status ShmCallRun::Refuse(int rank, const char* what) {
  return barrier_.Abort(absl::InternalError(absl::StrCat(
      "rank ", rank, " shows ", what, " in the memory of the group, for ", DescribeCall(call_))));
}

absl::Status ShmCallRun::RunThroughSlots() {
  // Even and odd calls use different slots, so that no rank overwrites a slot that is being read.
  const size_t at = sequence_ % 2 * kSlotBytes;
  const ShmSegment& segment = barrier_.segment();
  if (!call_.input.empty()) {
    std::memcpy(segment.arena(barrier_.rank()).data() + at, call_.input.data(), call_.input.size());
  }
  RETURN_IF_ERROR(Meet());
  any_staged_ = false;
  for (int rank = 0; rank < barrier_.size(); ++rank) {
    inputs_.push_back({segment.arena(rank).data() + at, false});
  }
  if (call_.op == CollectiveOp::kReduceScatter) {
    ReducePart(0);
  } else if (!Reduces(call_.op)) {
    GatherParts(0);
  } else if (!call_.output.empty()) {
    std::vector<Operand> operands;
    for (const Place& input : inputs_) operands.push_back({input.data, false});
    CombineTree({call_.dtype, call_.reduce}, operands, static_cast<size_t>(call_.count),
                {call_.output.data(), false, divisor_});
  }
  return absl::OkStatus();
}

absl::Status ShmCallRun::RunInPieces() {
  const auto piece_bytes = static_cast<int64_t>(barrier_.segment().plan().piece_bytes);
  const auto element = static_cast<int64_t>(element_);
  // A piece in staging memory has equal room for each part of the input, in whole cache lines.
  piece_elements_ = piece_bytes / Parts() / kLineBytes * kLineBytes / element;
  PlaceInput();
  PlaceWork();
  // The first piece is staged before the first barrier, so that the other ranks can read it after
  // the barrier.
  StageIn(0);
  RETURN_IF_ERROR(Meet());
  RETURN_IF_ERROR(ReadPlaces());
  const int64_t pieces =
      any_staged_ ? std::max(int64_t{1}, RoundUp(LargestPart(), piece_elements_) / piece_elements_)
                  : 1;
  // Each turn copies the results of the piece before to the output, works on one piece, and stages
  // the next piece in the free half of the staging memory.
  for (int64_t piece = 0; piece < pieces; ++piece) {
    if (piece > 0) CopyOut(piece - 1);
    RETURN_IF_ERROR(Move(piece));
    if (piece + 1 < pieces) StageIn(piece + 1);
    RETURN_IF_ERROR(barrier_.Wait());
  }
  CopyOut(pieces - 1);
  return absl::OkStatus();
}

bool ShmCallRun::WantsWork(int rank) const {
  return call_.op == CollectiveOp::kAllReduce ||
         (call_.op == CollectiveOp::kReduce && rank == call_.root);
}

void ShmCallRun::PlaceInput() {
  if (call_.op == CollectiveOp::kAllToAll) {
    std::copy(call_.counts.begin(), call_.counts.end(), mine_.counts.begin());
  }
  const auto offset = arena_.OffsetOf(call_.input);
  mine_.input_staged = offset ? 0 : 1;
  mine_.input = offset.value_or(kStagingAt);
}

// Chooses where this rank gets the result. An output outside the arena is staged, in the same
// memory as the input. An output in the arena gets the result directly; an input outside the arena
// is then copied to the output first.
void ShmCallRun::PlaceWork() {
  if (!WantsWork(barrier_.rank())) return;
  const auto output = arena_.OffsetOf(call_.output);
  if (!output) {
    mine_.input_staged = mine_.work_staged = 1;
    mine_.input = mine_.work = kStagingAt;
    return;
  }
  mine_.work = *output;
  if (mine_.input_staged == 0) return;
  Copy(call_.output.data(), call_.input.data(), call_.count);
  mine_.input_staged = 0;
  mine_.input = *output;
}

ShmCallRun::Place ShmCallRun::PlaceOf(int rank, uint64_t offset, bool staged) const {
  return {barrier_.segment().arena(rank).data() + (staged ? kStagingAt : offset), staged};
}

absl::Status ShmCallRun::ReadPlaces() {
  if (call_.op == CollectiveOp::kAllToAll) RETURN_IF_ERROR(ReadCounts());
  const ShmSegment& segment = barrier_.segment();
  // The offsets come from another process, so they are checked to lie in that rank's arena.
  const auto fits = [&](uint64_t offset, int64_t elements) {
    const size_t room = segment.plan().arena_bytes;
    return offset >= kOwnBytes && offset <= room &&
           static_cast<size_t>(elements) <= (room - offset) / element_;
  };
  for (int rank = 0; rank < barrier_.size(); ++rank) {
    const ShmCall& call = segment.block(rank).calls[sequence_ % 2];
    const bool input_staged = call.input_staged != 0;
    const bool work_staged = call.work_staged != 0;
    const Range last = PartOf(rank, Parts() - 1);
    if ((!input_staged && !fits(call.input, last.begin + last.count)) ||
        (WantsWork(rank) && !work_staged && !fits(call.work, call_.count))) {
      return Refuse(rank, "a place outside its arena");
    }
    any_staged_ = any_staged_ || input_staged || work_staged;
    inputs_.push_back(PlaceOf(rank, call.input, input_staged));
    works_.push_back(PlaceOf(rank, call.work, work_staged));
  }
  return absl::OkStatus();
}

absl::Status ShmCallRun::ReadCounts() {
  const auto ranks = static_cast<size_t>(barrier_.size());
  for (size_t rank = 0; rank < ranks; ++rank) {
    const auto& theirs = barrier_.segment().block(static_cast<int>(rank)).calls[sequence_ % 2];
    counts_.insert(counts_.end(), theirs.counts.begin(), theirs.counts.begin() + ranks);
    for (size_t to = 0; to < ranks; ++to) {
      const int64_t count = counts_[rank * ranks + to];
      // The count comes from another process, so it is checked before it is used.
      if (count < 0 || count > (int64_t{1} << 50)) {
        return Refuse(static_cast<int>(rank), "an impossible count");
      }
    }
    const int64_t comes = counts_[rank * ranks + static_cast<size_t>(barrier_.rank())];
    if (comes == call_.receive_counts[rank]) continue;
    return barrier_.Abort(
        MakeError(absl::StatusCode::kFailedPrecondition,
                  absl::StrCat("call ", sequence_, ", ", DescribeCall(call_), ": rank ", rank,
                               " sends ", comes, " elements to rank ", barrier_.rank(),
                               ", which means to receive ", call_.receive_counts[rank]),
                  proto::APPLICATION));
  }
  return absl::OkStatus();
}

bool ShmCallRun::HasParts() const {
  return call_.op == CollectiveOp::kReduceScatter || call_.op == CollectiveOp::kAllToAll;
}

ShmCallRun::Range ShmCallRun::PartOf(int rank, int part) const {
  const auto index = static_cast<size_t>(part);
  const auto ranks = static_cast<size_t>(barrier_.size());
  absl::Span<const int64_t> counts = call_.counts;
  switch (call_.op) {
    case CollectiveOp::kAllGather:
      return {0, counts[static_cast<size_t>(rank)]};
    case CollectiveOp::kBroadcast:
      return {0, rank == call_.root ? call_.count : 0};
    case CollectiveOp::kAllToAll:
      // The first StageIn() runs before the counts of the other ranks are known, and asks for this
      // rank's parts only.
      if (!counts_.empty()) {
        counts = absl::MakeConstSpan(counts_).subspan(static_cast<size_t>(rank) * ranks, ranks);
      }
      [[fallthrough]];
    case CollectiveOp::kReduceScatter:
      return {SumOfCounts(counts.subspan(0, index)), counts[index]};
    default:
      return {0, call_.count};
  }
}

int64_t ShmCallRun::LargestPart() const {
  int64_t largest = 0;
  for (int rank = 0; rank < barrier_.size(); ++rank) {
    for (int part = 0; part < Parts(); ++part) {
      largest = std::max(largest, PartOf(rank, part).count);
    }
  }
  return largest;
}

ShmCallRun::Range ShmCallRun::PieceOf(int64_t count, int64_t piece) const {
  if (!any_staged_) return {0, count};
  const int64_t begin = std::min(count, piece * piece_elements_);
  return {begin, std::min(count - begin, piece_elements_)};
}

std::byte* ShmCallRun::At(const Place& place, int part, int64_t part_begin, const Range& piece,
                          int64_t number) const {
  if (!place.staged) {
    return place.data + static_cast<size_t>(part_begin + piece.begin) * element_;
  }
  // Even and odd pieces use different halves of the staging memory. In a half, the parts of a piece
  // follow each other.
  return place.data + static_cast<size_t>(number % 2) * kStagingBytes +
         static_cast<size_t>(part * piece_elements_) * element_;
}

void ShmCallRun::Copy(std::byte* to, const std::byte* from, int64_t elements) const {
  if (to != from && elements > 0) std::memcpy(to, from, static_cast<size_t>(elements) * element_);
}

void ShmCallRun::StageIn(int64_t number) {
  if (mine_.input_staged == 0) return;
  // If this rank stages its input, all ranks will work in pieces; PieceOf() must know it before
  // ReadPlaces() has set any_staged_.
  const bool staged_before = std::exchange(any_staged_, true);
  const Place place = PlaceOf(barrier_.rank(), 0, true);
  for (int part = 0; part < Parts(); ++part) {
    const Range range = PartOf(barrier_.rank(), part);
    const Range piece = PieceOf(range.count, number);
    Copy(At(place, part, range.begin, piece, number),
         call_.input.data() + static_cast<size_t>(range.begin + piece.begin) * element_,
         piece.count);
  }
  any_staged_ = staged_before;
}

void ShmCallRun::CopyOut(int64_t number) {
  if (mine_.work_staged == 0) return;
  const Range piece = PieceOf(call_.count, number);
  const Place& place = works_[static_cast<size_t>(barrier_.rank())];
  Copy(call_.output.data() + static_cast<size_t>(piece.begin) * element_,
       At(place, 0, 0, piece, number), piece.count);
}

absl::Status ShmCallRun::Move(int64_t piece) {
  if (call_.op == CollectiveOp::kReduceScatter) {
    ReducePart(piece);
  } else if (Reduces(call_.op)) {
    return ReduceSlice(piece);
  } else {
    GatherParts(piece);
  }
  return barrier_.Cause();
}

absl::Status ShmCallRun::ReduceSlice(int64_t number) {
  const Range piece = PieceOf(call_.count, number);
  const auto element = static_cast<int64_t>(element_);
  // Each rank reduces 1/n of the piece for all n ranks, in whole cache lines.
  const int64_t slice = RoundUp((piece.count + barrier_.size() - 1) / barrier_.size(),
                                std::max(int64_t{1}, kLineBytes / element));
  const int64_t begin = std::min(piece.count, barrier_.rank() * slice);
  const int64_t end = std::min(piece.count, begin + slice);
  // This rank's own output comes first. The other outputs are copied from the block that was just
  // written there, which is nearest in the cache.
  std::vector<std::byte*> targets;
  for (int i = 0; i < barrier_.size(); ++i) {
    const int rank = (barrier_.rank() + i) % barrier_.size();
    if (WantsWork(rank)) {
      targets.push_back(At(works_[static_cast<size_t>(rank)], 0, 0, piece, number));
    }
  }
  std::vector<Operand> operands(inputs_.size());
  const auto block = static_cast<int64_t>(kBlockBytes / element_);
  for (int64_t at = begin; at < end; at += block) {
    const int64_t count = std::min(block, end - at);
    const size_t offset = static_cast<size_t>(at) * element_;
    for (size_t i = 0; i < inputs_.size(); ++i) {
      operands[i] = {At(inputs_[i], 0, 0, piece, number) + offset, false};
    }
    CombineTree({call_.dtype, call_.reduce}, operands, static_cast<size_t>(count),
                {targets[0] + offset, false, divisor_});
    for (size_t i = 1; i < targets.size(); ++i) {
      Copy(targets[i] + offset, targets[0] + offset, count);
    }
    // The check after each block lets this rank stop soon after an abort.
    if (barrier_.aborted()) return barrier_.Cause();
  }
  return absl::OkStatus();
}

void ShmCallRun::ReducePart(int64_t number) {
  const Range part = PartOf(barrier_.rank(), barrier_.rank());
  const Range piece = PieceOf(part.count, number);
  if (piece.count == 0) return;
  std::vector<Operand> operands;
  for (const Place& input : inputs_) {
    operands.push_back({At(input, barrier_.rank(), part.begin, piece, number), false});
  }
  CombineTree({call_.dtype, call_.reduce}, operands, static_cast<size_t>(piece.count),
              {call_.output.data() + static_cast<size_t>(piece.begin) * element_, false, divisor_});
}

// Copies the elements that each rank has for this rank to the output, in an all-gather, broadcast
// or all-to-all.
void ShmCallRun::GatherParts(int64_t number) {
  const int part = HasParts() ? barrier_.rank() : 0;
  int64_t output = 0;
  for (int rank = 0; rank < barrier_.size(); ++rank) {
    const Range range = PartOf(rank, part);
    const Range piece = PieceOf(range.count, number);
    Copy(call_.output.data() + static_cast<size_t>(output + piece.begin) * element_,
         At(inputs_[static_cast<size_t>(rank)], part, range.begin, piece, number), piece.count);
    output += range.count;
  }
}

}  // namespace cohort
