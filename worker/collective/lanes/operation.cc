#include "worker/collective/lanes/operation.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "common/base/invariants.h"
#include "common/base/rng.h"
#include "worker/collective/lanes/frame_bytes.h"
#include "worker/collective/plan/segments.h"
#include "worker/collective/reduce_tree.h"

namespace cohort {

namespace {

// Upper bound on the elements that are combined at a time, so that their operands stay in the
// second-level cache.
constexpr int64_t kBlockElements = 8192;

// Returns true if an operation is done only when its frames have been answered. Where the result of
// every rank needs every other rank, a rank with a result knows that all ranks made the same call.
// In a broadcast or a reduce, a rank that only sends learns it from the answers of the receivers.
bool EndsAnswered(CollectiveOp op) {
  return op == CollectiveOp::kBroadcast || op == CollectiveOp::kReduce;
}

uint64_t ReceiveKey(int rank, uint32_t tag) { return static_cast<uint64_t>(rank) << 32 | tag; }

// Returns true if the elements of a Ref (plan.h) lie in memory of the operation, and not in the
// caller's memory.
bool InOwnMemory(const Ref& ref) {
  return ref.place == Ref::Place::kFrame || ref.place == Ref::Place::kMade;
}

}  // namespace

uint64_t FrameFingerprint(const CollectiveCall& call, uint64_t fingerprint, int from, int to,
                          int rank) {
  if (call.op != CollectiveOp::kAllToAll) return fingerprint;
  // Both ranks hash the number of elements that `from` sends to `to`: the sender has it in counts,
  // the receiver in receive_counts.
  const std::vector<int64_t>& counts = from == rank ? call.counts : call.receive_counts;
  const int64_t count = counts[static_cast<size_t>(from == rank ? to : from)];
  return Mix64(fingerprint + static_cast<uint64_t>(count));
}

// A hold on the caller's memory, which frames that point into this memory own. All such frames that
// are under way share one Hold. When the last user of the memory is gone, CheckEnd() is posted.
// Thread-safe.
class Operation::Hold {
 public:
  explicit Hold(std::shared_ptr<Operation> operation)
      : operation_(std::move(operation)), host_(operation_->life_of_host_.lock()) {
    ++operation_->memory_holds_;
  }
  ~Hold() {
    if (--operation_->memory_holds_ > 0) return;
    // CheckEnd() is posted and not called, because the transport that releases the frame may hold
    // locks.
    operation_->strand_.Post([operation = operation_, host = host_] { operation->CheckEnd(); });
  }
  Hold(const Hold&) = delete;
  Hold& operator=(const Hold&) = delete;

 private:
  const std::shared_ptr<Operation> operation_;  // the operation, which this Hold keeps alive
  const std::shared_ptr<OperationHost> host_;  // the group, which owns the strand and is kept alive
};

Operation::Operation(const std::shared_ptr<OperationHost>& host, OperationWays ways,
                     OperationSetup setup)
    : host_(*host),
      life_of_host_(host),
      strand_(ways.strand),
      links_(ways.links),
      places_(ways.places),
      setup_(std::move(setup)),
      fingerprint_(FingerprintOf(setup_.call)),
      states_(setup_.plan.steps.size()),
      peers_(static_cast<size_t>(setup_.size)),
      steps_left_(setup_.plan.steps.size()) {
  LinkSteps();
  OfferPlaces();
}

void Operation::LinkSteps() {
  const RankPlan& plan = setup_.plan;
  // Counts the steps that wait for each step. The sums of the counts are positions in dependents_.
  std::vector<uint32_t> readers(plan.steps.size() + 1);
  for (const Ref& ref : plan.refs) {
    if (ref.step != Ref::kNoStep) ++readers[ref.step + 1];
  }
  for (size_t i = 1; i < readers.size(); ++i) readers[i] += readers[i - 1];
  dependents_begin_ = readers;
  dependents_.resize(readers.back());
  // Each step is entered as a dependent of the steps whose results it reads.
  for (uint32_t index = 0; index < plan.steps.size(); ++index) {
    const PlanStep& step = plan.steps[index];
    for (const Ref& ref : plan.RefsOf(step)) {
      if (ref.step == Ref::kNoStep) continue;
      dependents_[readers[ref.step]++] = index;
      ++states_[index].waits_for;
      if (InOwnMemory(ref)) ++states_[ref.step].readers;
    }
    if (step.kind == PlanStep::Kind::kReceive) {
      receives_[ReceiveKey(step.peer, step.tag)] = index;
    } else if (states_[index].waits_for == 0) {
      ready_.push_back(index);
    }
  }
}

// Offers places in the caller's output for frames that the plan copies to the output unchanged.
void Operation::OfferPlaces() {
  const RankPlan& plan = setup_.plan;
  for (uint32_t index = 0; index < plan.steps.size(); ++index) {
    const PlanStep& step = plan.steps[index];
    if (step.kind != PlanStep::Kind::kCopy || step.target.place != Ref::Place::kOutput) continue;
    const Ref& frame = plan.refs[step.refs_begin];
    if (frame.place != Ref::Place::kFrame || frame.first != 0) continue;
    const PlanStep& receive = plan.steps[frame.step];
    // Only a whole frame of final elements can be received in the output.
    if (receive.target.count != step.target.count || receive.target.partial) continue;
    std::byte* const place = TargetOf(index);
    states_[frame.step].place = place;
    const size_t bytes = static_cast<size_t>(step.target.count) * ElementBytes(false);
    places_.Offer(setup_.sequence, {receive.peer, receive.tag,
                                    FrameFingerprint(setup_.call, fingerprint_, receive.peer,
                                                     setup_.rank, setup_.rank),
                                    absl::MakeSpan(place, bytes)});
  }
}

void Operation::Begin() {
  const InvariantsAfter check(*this);
  const auto sends = [](const PlanStep& step) { return step.kind == PlanStep::Kind::kSend; };
  const std::vector<PlanStep>& steps = setup_.plan.steps;
  if (setup_.size > 1 && std::none_of(steps.begin(), steps.end(), sends)) SendHello();
  RunReady();
  CheckEnd();
}

// Sends a hello frame, which has no elements, for an operation that sends no other frame: so
// another rank can compare this rank's call with its own.
void Operation::SendHello() {
  const std::vector<PlanStep>& steps = setup_.plan.steps;
  const auto receive = std::find_if(steps.begin(), steps.end(), [](const PlanStep& step) {
    return step.kind == PlanStep::Kind::kReceive;
  });
  const int peer = receive == steps.end() ? (setup_.rank + 1) % setup_.size : receive->peer;
  SendFrame(peer, kHelloTag, {});
}

void Operation::OnFrame(CollectiveFrame frame) {
  const InvariantsAfter check(*this);
  if (stopped_ || done_ || frame.tag == kHelloTag) return;
  const auto found = receives_.find(ReceiveKey(frame.from, frame.tag));
  if (found == receives_.end()) {
    return host_.OnBadFrame(setup_.sequence, absl::InternalError(absl::StrCat(
                                                 "call ", setup_.sequence, ", ", setup_.description,
                                                 ": rank ", frame.from, " sent frame ",
                                                 absl::Hex(frame.tag), ", which no rank expects")));
  }
  const PlanStep& step = setup_.plan.steps[found->second];
  StepState& state = states_[found->second];
  if (state.made) return;  // the same frame has been received before
  const size_t bytes = static_cast<size_t>(step.target.count) * ElementBytes(step.target.partial);
  if (PayloadBytes(frame.payload) != bytes) {
    return host_.OnBadFrame(
        setup_.sequence,
        absl::InternalError(absl::StrCat("call ", setup_.sequence, ", ", setup_.description,
                                         ": a frame of rank ", frame.from, " has ",
                                         PayloadBytes(frame.payload), " bytes, not ", bytes)));
  }
  // The payload begins at the offered place if the transport has received the frame in the output.
  if (state.place != nullptr && bytes > 0 && frame.payload[0].data == state.place) {
    // If the frame is also sent on to another rank, its elements are sent from the output, so its
    // payload must hold the caller's memory.
    if (state.readers > 1) frame.payload = {CallersMemory(state.place, bytes)};
    ++counters_.frames_in_place;
  }
  if (state.readers > 0) state.payload = std::move(frame.payload);
  Made(found->second);
  RunReady();
  CheckEnd();
}

void Operation::RunReady() {
  while (!ready_.empty() && !stopped_) {
    const uint32_t index = ready_.front();
    ready_.pop_front();
    RunStep(index);
  }
}

void Operation::RunStep(uint32_t index) {
  const PlanStep& step = setup_.plan.steps[index];
  if (step.kind == PlanStep::Kind::kSend) {
    peers_[static_cast<size_t>(step.peer)].waiting.push_back(index);
    return Pump(step.peer);
  }
  std::byte* const target = TargetOf(index);
  if (step.kind == PlanStep::Kind::kCombine) {
    Combine(step, target);
  } else {
    Copy(step, target);
  }
  for (const Ref& ref : setup_.plan.RefsOf(step)) DropReader(ref);
  Made(index);
}

void Operation::Made(uint32_t index) {
  states_[index].made = true;
  --steps_left_;
  for (uint32_t i = dependents_begin_[index]; i < dependents_begin_[index + 1]; ++i) {
    if (--states_[dependents_[i]].waits_for == 0) ready_.push_back(dependents_[i]);
  }
}

void Operation::DropReader(const Ref& ref) {
  if (!InOwnMemory(ref)) return;
  StepState& state = states_[ref.step];
  if (--state.readers > 0) return;
  // The last reader of a result releases the memory of the result.
  state.payload.clear();
  state.memory.reset();
}

size_t Operation::ElementBytes(bool partial) const {
  return ElementSize(partial ? AccumulatorOf(setup_.call.dtype) : setup_.call.dtype);
}

std::byte* Operation::TargetOf(uint32_t index) {
  const Ref& target = setup_.plan.steps[index].target;
  const size_t element = ElementBytes(target.partial);
  if (target.place == Ref::Place::kOutput) {
    return setup_.call.output.data() + static_cast<size_t>(target.first) * element;
  }
  // The step is a join, whose result no step reads.
  if (states_[index].readers == 0) return nullptr;
  states_[index].memory = Buffer::Allocate(static_cast<size_t>(target.count) * element);
  return states_[index].memory->data();
}

const std::byte* Operation::At(const Ref& ref, int64_t first, int64_t count,
                               std::vector<std::byte>& spare) {
  const size_t element = ElementBytes(ref.partial);
  const size_t offset = static_cast<size_t>(ref.first + first) * element;
  switch (ref.place) {
    case Ref::Place::kInput:
      return setup_.call.input.data() + offset;
    case Ref::Place::kOutput:
      return setup_.call.output.data() + offset;
    case Ref::Place::kMade:
      return states_[ref.step].memory->data() + offset;
    case Ref::Place::kFrame:
      break;
  }
  return BytesAt(states_[ref.step].payload, offset, static_cast<size_t>(count) * element, spare);
}

// Returns the number of whole elements of a Ref (plan.h) that are contiguous in memory from `first`
// on; 0 if the element `first` lies in two pieces of a frame's payload.
int64_t Operation::WholeElements(const Ref& ref, int64_t first) const {
  if (ref.place != Ref::Place::kFrame) return ref.count - first;
  const size_t element = ElementBytes(ref.partial);
  const size_t offset = static_cast<size_t>(ref.first + first) * element;
  return static_cast<int64_t>(BytesInPiece(states_[ref.step].payload, offset) / element);
}

void Operation::Combine(const PlanStep& step, std::byte* target) {
  const absl::Span<const Ref> refs = setup_.plan.RefsOf(step);
  const CollectiveCall& call = setup_.call;
  const bool mean = call.reduce == ReduceOp::kMean && step.final;
  std::vector<Operand> operands(refs.size());
  std::vector<std::vector<std::byte>> spares(refs.size());
  const size_t element = ElementBytes(step.target.partial);
  int64_t count = 0;
  // A block of elements that are combined at once ends where a piece of any operand's payload ends.
  for (int64_t first = 0; first < step.target.count; first += count) {
    count = std::min(kBlockElements, step.target.count - first);
    for (const Ref& ref : refs) count = std::min(count, WholeElements(ref, first));
    // An element that lies in two pieces of a payload is combined alone.
    count = std::max(count, int64_t{1});
    for (size_t i = 0; i < refs.size(); ++i) {
      operands[i] = {At(refs[i], first, count, spares[i]), refs[i].partial};
    }
    CombineTree({call.dtype, call.reduce}, operands, static_cast<size_t>(count),
                {target + static_cast<size_t>(first) * element, step.target.partial,
                 mean ? setup_.size : 1});
  }
}

void Operation::Copy(const PlanStep& step, std::byte* target) {
  const Ref& from = setup_.plan.refs[step.refs_begin];
  const size_t bytes = static_cast<size_t>(step.target.count) * ElementBytes(step.target.partial);
  if (bytes == 0) return;
  if (from.place == Ref::Place::kFrame) {
    // A frame that was received in the output needs no copy.
    if (states_[from.step].payload[0].data == target) return;
    return CopyPayload(states_[from.step].payload, bytes, target);
  }
  std::vector<std::byte> unused;
  const std::byte* const source = At(from, 0, step.target.count, unused);
  if (source != target) std::memcpy(target, source, bytes);
}

Payload Operation::PayloadOf(uint32_t index) {
  const Ref& ref = setup_.plan.refs[setup_.plan.steps[index].refs_begin];
  const size_t bytes = static_cast<size_t>(ref.count) * ElementBytes(ref.partial);
  if (bytes == 0) return {};
  // A received frame is sent on without a copy of its payload.
  if (ref.place == Ref::Place::kFrame) return states_[ref.step].payload;
  std::vector<std::byte> unused;
  const std::byte* const data = At(ref, 0, ref.count, unused);
  if (ref.place == Ref::Place::kMade) return {{states_[ref.step].memory, data, bytes}};
  return {CallersMemory(data, bytes)};
}

ByteSlice Operation::CallersMemory(const std::byte* data, size_t bytes) {
  // Frames that are under way at the same time share one Hold on the caller's memory.
  std::shared_ptr<const Hold> hold = hold_.lock();
  if (hold == nullptr) {
    hold = std::make_shared<const Hold>(shared_from_this());
    hold_ = hold;
  }
  return {std::move(hold), data, bytes};
}

void Operation::Pump(int peer) {
  PeerQueue& queue = peers_[static_cast<size_t>(peer)];
  while (!stopped_ && !queue.waiting.empty() && queue.under_way < kFramesToPeerMax) {
    const uint32_t index = queue.waiting.front();
    queue.waiting.pop_front();
    Payload payload = PayloadOf(index);
    const PlanStep& step = setup_.plan.steps[index];
    // From now on the payload keeps the elements' memory alive, so this send step no longer counts
    // as a reader of them.
    DropReader(setup_.plan.refs[step.refs_begin]);
    Made(index);
    SendFrame(peer, step.tag, std::move(payload));
  }
}

void Operation::SendFrame(int peer, uint32_t tag, Payload payload) {
  ++counters_.frames_sent;
  counters_.bytes_sent += PayloadBytes(payload);
  ++peers_[static_cast<size_t>(peer)].under_way;
  ++frames_under_way_;
  if (tag == kHelloTag) ++hellos_under_way_;
  links_.Send(
      peer,
      {setup_.rank, setup_.sequence,
       FrameFingerprint(setup_.call, fingerprint_, setup_.rank, peer, setup_.rank), tag,
       setup_.description, setup_.answers_may_wait && !EndsAnswered(setup_.call.op),
       std::move(payload)},
      [self = shared_from_this(), host = life_of_host_.lock(), peer, tag](absl::Status status) {
        // If the strand is idle, the answer is handled on this thread, as a frame is
        // (LaneGroup::OnFrame).
        self->strand_.RunOrPost([self, host, peer, tag, status = std::move(status)] {
          self->Answered(peer, tag, status);
        });
      });
}

void Operation::Answered(int peer, uint32_t tag, const absl::Status& status) {
  --peers_[static_cast<size_t>(peer)].under_way;
  --frames_under_way_;
  if (tag == kHelloTag) --hellos_under_way_;
  if (!status.ok() && !stopped_ && Matters(peer, tag, status)) {
    host_.OnPeerFailed(setup_.sequence, peer, status);
  }
  Pump(peer);
  RunReady();
  CheckEnd();
}

// Returns true if the failure to deliver a frame ends the group. A hello frame may fail: a rank
// that has sent everything that this rank receives from it may leave before the hello frame
// arrives.
bool Operation::Matters(int peer, uint32_t tag, const absl::Status& failure) const {
  if (tag != kHelloTag || absl::IsAborted(failure)) return true;
  for (size_t i = 0; i < states_.size(); ++i) {
    const PlanStep& step = setup_.plan.steps[i];
    if (step.kind == PlanStep::Kind::kReceive && step.peer == peer && !states_[i].made) return true;
  }
  return false;
}

void Operation::Stop() {
  const InvariantsAfter check(*this);
  stopped_ = true;
  ready_.clear();
  for (PeerQueue& queue : peers_) queue.waiting.clear();
  for (StepState& state : states_) {
    state.payload.clear();
    state.memory.reset();
  }
}

void Operation::Fail(const absl::Status& status) {
  const InvariantsAfter check(*this);
  if (done_ || failed_) return;
  COHORT_CHECK(stopped_, "an operation stops before it fails");
  failed_ = true;
  status_ = status;
  CheckEnd();
}

bool Operation::HasEnded() const {
  if (stopped_ || steps_left_ > 0) return false;
  return !EndsAnswered(setup_.call.op) || frames_under_way_ == hellos_under_way_;
}

// Tells the host when the operation is done and when it has retired. `self` keeps the operation
// alive if the host erases it meanwhile.
void Operation::CheckEnd() {
  const auto self = shared_from_this();
  const InvariantsAfter check(*this);
  const bool ends = !done_ && (failed_ || HasEnded());
  // The steps together count as one hold on the caller's memory, given up once; frames may hold the
  // memory longer.
  if (ends && !std::exchange(steps_ended_, true)) --memory_holds_;
  if (ends && memory_holds_ == 0) {
    done_ = true;
    // The offered places are closed before OnDone(), because afterwards the caller owns the output.
    places_.Close(setup_.sequence);
    host_.OnDone(setup_.sequence, status_);
  }
  if (retired()) host_.OnRetired(setup_.sequence);
}

void Operation::CheckInvariants() const {
  int under_way = 0;
  for (const PeerQueue& queue : peers_) {
    COHORT_CHECK(queue.under_way >= 0, "a frame is answered once");
    under_way += queue.under_way;
  }
  COHORT_CHECK(under_way == frames_under_way_, "frames_under_way_ counts the frames to all peers");
  COHORT_CHECK(0 <= hellos_under_way_ && hellos_under_way_ <= frames_under_way_,
               "hello frames are counted among the frames under way");
  COHORT_CHECK(!failed_ || stopped_, "an operation stops before it fails");
  COHORT_CHECK(!done_ || steps_ended_, "an operation is done when its steps have ended");
  if (states_.size() > kInvariantWalkMax) return;
  size_t left = 0;
  for (const StepState& state : states_) left += state.made ? 0 : 1;
  COHORT_CHECK(left == steps_left_, "steps_left_ counts the steps that are not made");
}

}  // namespace cohort
