#include "worker/collective/lanes/lane_group.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "common/base/invariants.h"
#include "common/wire/error_detail.h"

namespace cohort {

namespace {

// The number of retired calls that are kept, to compare late frames with. No rank is so far behind,
// because a rank is at most kLaneOperationsMax calls ahead.
constexpr size_t kPastCallsMax = 256;
// If a receiver held back more answers than a sender may have unanswered frames, both would wait
// for each other.
static_assert(LateAnswers::kFramesToAnswer <= Operation::kFramesToPeerMax);

// Returns the upper bound of the frames that are parked because this rank has not begun their
// calls: the unanswered frames of every other rank, in every call by which that rank may be ahead.
size_t ParkedFramesMax(int size) {
  return static_cast<size_t>(size) * Operation::kFramesToPeerMax * kLaneOperationsMax;
}

// Gives each rank that is missing in `hosts` a host of its own.
HostLayout WithoutHosts(HostLayout hosts, int size) {
  for (int rank = static_cast<int>(hosts.host_of.size()); rank < size; ++rank) {
    hosts.host_of.push_back(rank);
  }
  return hosts;
}

LaneGroupOptions Completed(LaneGroupOptions options) {
  options.hosts = WithoutHosts(std::move(options.hosts), options.size);
  return options;
}

// Returns the ranks from which the plan receives frames.
absl::InlinedVector<int, 8> SendersTo(const RankPlan& plan) {
  absl::InlinedVector<int, 8> ranks;
  for (const PlanStep& step : plan.steps) {
    if (step.kind != PlanStep::Kind::kReceive) continue;
    if (std::find(ranks.begin(), ranks.end(), step.peer) == ranks.end()) ranks.push_back(step.peer);
  }
  return ranks;
}

// The time within which a living rank answers AskProgress, which has a connection of its own and
// does not wait for frames.
constexpr absl::Duration kAnswerWait = absl::Milliseconds(500);

// The answers of the other ranks to AskProgress for one call. Lives on the strand of the group.
struct Answers {
  size_t waits_for = 0;
  std::map<int, std::string> missing;  // words about each rank that has not started the call
};

// The time within which a living rank answers with its cause when a group is aborted.
constexpr absl::Duration kAgreementWait = absl::Milliseconds(500);

}  // namespace

LaneGroup::LaneGroup(Clock& clock, Executor& executor, std::unique_ptr<PeerLinks> links,
                     LaneGroupOptions options)
    : clock_(clock),
      executor_(executor),
      options_(Completed(std::move(options))),
      links_(std::move(links)),
      recorder_(std::make_shared<FlightRecorder>(
          FlightRecorder::Owner{options_.name, options_.rank, options_.size, options_.tasks})),
      strand_(executor),
      answers_(options_.size),
      agreement_(options_.rank, options_.size) {}

LaneCounters LaneGroup::counters() const {
  MutexLock lock(counters_mutex_);
  return counters_;
}

void LaneGroup::Start(CollectiveCall call, Carries carries, Communicator::Done done) {
  strand_.Post([self = shared_from_this(), carries, call = std::move(call),
                done = std::move(done)]() mutable {
    self->StartHere(std::move(call), carries, std::move(done));
  });
}

void LaneGroup::StartHere(CollectiveCall call, Carries carries, Communicator::Done done) {
  const InvariantsAfter check(*this);
  if (settled_) return Tell(std::move(done), end_);
  const uint64_t sequence = next_sequence_++;
  // An invalid call gets a sequence number as well, because all ranks number their calls alike.
  absl::Status status = CheckCall(call, options_.rank, options_.size);
  if (status.ok()) {
    status = CheckAlgorithm({call, options_.rank, options_.size, options_.hosts});
  }
  CallState& state = calls_[sequence];
  state.sequence = sequence;
  state.call = std::move(call);
  state.carries = carries;
  state.done = std::move(done);
  state.started = clock_.Now();
  if (agreement_.begun()) return;  // the call ends when the ranks agree on the abort's cause
  if (!status.ok()) return Found(sequence, status);
  SetTimer(state);
  SetStallTimer();
  CheckLeft(sequence);
  BeginNext();
}

void LaneGroup::BeginNext() {
  while (!agreement_.begun() && next_begin_ < next_sequence_ && under_way_ < kLaneOperationsMax) {
    const uint64_t sequence = next_begin_++;
    ++under_way_;
    Begin(calls_[sequence]);
    // Frames of this call may have come from other ranks that began it earlier.
    HandleParked(sequence);
  }
}

void LaneGroup::Begin(CallState& state) {
  const PlanInput in{state.call, options_.rank, options_.size, options_.hosts};
  const bool moves = state.carries == Carries::kElements;
  const CollectiveAlgorithm algorithm = moves ? ChooseAlgorithm(in) : CollectiveAlgorithm::kAuto;
  OperationSetup setup;
  setup.sequence = state.sequence;
  setup.call = state.call;
  setup.description = DescribeCall(state.call);
  setup.plan = moves ? PlanOf(in, algorithm) : AgreementPlan(in);
  setup.rank = options_.rank;
  setup.size = options_.size;
  // Receivers may hold back their answers if few operations are under way. With more operations,
  // this rank needs the answers soon: it begins further calls when operations retire.
  setup.answers_may_wait = under_way_ <= kLaneOperationsMax / 2;
  recorder_->Started({state.sequence, &state.call, algorithm, SendersTo(setup.plan)},
                     state.started);
  state.operation = std::make_shared<Operation>(
      shared_from_this(), OperationWays{strand_, *links_, places_}, std::move(setup));
  // The operation is kept alive here, because its Begin() may end the call and erase `state`.
  const std::shared_ptr<Operation> operation = state.operation;
  operation->Begin();
}

void LaneGroup::OnFrame(CollectiveFrame frame, Consumed consumed) {
  // If the strand is idle, the frame is handled on the transport's thread, because waking another
  // thread takes longer.
  strand_.RunOrPost([self = shared_from_this(), frame = std::move(frame),
                     consumed = std::move(consumed)]() mutable {
    self->HandleFrame(std::move(frame), std::move(consumed));
  });
}

void LaneGroup::HandleFrame(CollectiveFrame frame, Consumed consumed) {
  const InvariantsAfter check(*this);
  if (agreement_.begun()) return consumed(absl::AbortedError("the group has been aborted here"));
  if (frame.from < 0 || frame.from >= options_.size || frame.from == options_.rank) {
    return consumed(absl::InvalidArgumentError(absl::StrCat("no rank ", frame.from, " here")));
  }
  // The frame of a call that this rank has not begun is parked, up to a limit.
  if (frame.sequence >= next_begin_) {
    if (parked_frames_ >= ParkedFramesMax(options_.size)) {
      return consumed(absl::ResourceExhaustedError("too many frames of calls to come"));
    }
    ++parked_frames_;
    parked_[frame.sequence].push_back({std::move(frame), std::move(consumed)});
    MutexLock lock(counters_mutex_);
    ++counters_.frames_parked;
    return;
  }
  const int from = frame.from;
  const bool may_wait = frame.answer_may_wait;
  const auto found = calls_.find(frame.sequence);
  if (found == calls_.end()) {
    // The call of the frame has retired; only the call's fingerprint is left to compare.
    ComparePast(frame);
  } else if (SameCall(*found->second.operation, frame)) {
    recorder_->Heard(frame.sequence, frame.from, clock_.Now());
    const std::shared_ptr<Operation> operation = found->second.operation;
    operation->OnFrame(std::move(frame));
  }
  // The frame may have shown that two ranks made different calls, which aborts the group.
  if (agreement_.begun()) return consumed(absl::AbortedError("the group has been aborted here"));
  answers_.Taken(from, may_wait, std::move(consumed));
}

void LaneGroup::HandleParked(uint64_t sequence) {
  const auto found = parked_.find(sequence);
  if (found == parked_.end()) return;
  std::vector<ParkedFrame> frames = std::move(found->second);
  parked_.erase(found);
  parked_frames_ -= frames.size();
  for (ParkedFrame& parked : frames) {
    HandleFrame(std::move(parked.frame), std::move(parked.consumed));
  }
}

bool LaneGroup::SameCall(const Operation& operation, const CollectiveFrame& frame) {
  const uint64_t expected = FrameFingerprint(operation.call(), operation.fingerprint(), frame.from,
                                             options_.rank, options_.rank);
  if (frame.fingerprint == expected) return true;
  Found(frame.sequence, MismatchError(frame.sequence, {options_.rank, operation.description()},
                                      {frame.from, frame.call}));
  return false;
}

// Compares a late frame with the retired call of the same sequence. A call may retire on this rank
// before frames have come from every rank.
void LaneGroup::ComparePast(const CollectiveFrame& frame) {
  const auto past = std::find_if(past_.begin(), past_.end(), [&](const PastCall& call) {
    return call.sequence == frame.sequence;
  });
  if (past == past_.end() || past->by_pairs || past->fingerprint == frame.fingerprint) return;
  Found(frame.sequence, MismatchError(frame.sequence, {options_.rank, past->description},
                                      {frame.from, frame.call}));
}

void LaneGroup::OnDone(uint64_t sequence, const absl::Status& status) {
  CallState& state = calls_.at(sequence);
  if (state.timer.value != 0) clock_.Cancel(state.timer);
  recorder_->Ended(sequence, status, clock_.Now());
  // The completion runs on this thread: waking another thread takes longer than a short call.
  std::exchange(state.done, nullptr)(status);
}

// Runs a completion on the executor. For calls that are not ended by a frame, whose completion is
// not urgent.
void LaneGroup::Tell(Communicator::Done done, const absl::Status& status) {
  executor_.Run([done = std::move(done), status]() mutable { done(status); });
}

void LaneGroup::OnRetired(uint64_t sequence) {
  const InvariantsAfter check(*this);
  const auto found = calls_.find(sequence);
  if (found == calls_.end()) return;
  const std::shared_ptr<Operation> operation = found->second.operation;
  past_.push_back({sequence, operation->fingerprint(), operation->description(),
                   operation->call().op == CollectiveOp::kAllToAll});
  if (past_.size() > kPastCallsMax) past_.pop_front();
  {
    MutexLock lock(counters_mutex_);
    counters_.frames_sent += operation->counters().frames_sent;
    counters_.bytes_sent += operation->counters().bytes_sent;
    counters_.frames_in_place += operation->counters().frames_in_place;
  }
  calls_.erase(found);
  --under_way_;
  BeginNext();
}

void LaneGroup::CheckInvariants() const {
  COHORT_CHECK(next_begin_ <= next_sequence_, "a call that was begun was started");
  size_t begun = 0;
  for (const auto& [sequence, state] : calls_) {
    COHORT_CHECK(state.sequence == sequence, "a call stands under its number");
    begun += sequence < next_begin_ ? 1 : 0;
  }
  COHORT_CHECK(begun == under_way_, "calls under way have begun and are not retired");
  size_t parked = 0;
  for (const auto& [sequence, frames] : parked_) parked += frames.size();
  COHORT_CHECK(parked == parked_frames_, "parked frames are those of all calls to come");
}

void LaneGroup::SetTimer(CallState& state) {
  if (state.call.timeout == absl::InfiniteDuration()) return;
  state.timer = clock_.CallAt(state.started + state.call.timeout,
                              [weak = weak_from_this(), sequence = state.sequence] {
                                const auto self = weak.lock();
                                if (self == nullptr) return;
                                self->strand_.Post([self, sequence] { self->Late(sequence); });
                              });
}

void LaneGroup::Late(uint64_t sequence) {
  AskWhoIsMissing(sequence, [self = shared_from_this(), sequence](Missing missing) {
    // The call may have ended while the other ranks were asked whether they have started it.
    const auto found = self->calls_.find(sequence);
    if (found == self->calls_.end()) return;
    const CallState& state = found->second;
    if (state.operation != nullptr && state.operation->done()) return;
    self->Found(sequence,
                LateError(sequence, DescribeCall(state.call), state.call.timeout, missing));
  });
}

void LaneGroup::SetStallTimer() {
  if (stall_timer_.value != 0 || options_.stall_after == absl::InfiniteDuration()) return;
  stall_timer_ = clock_.CallAt(clock_.Now() + options_.stall_after, [weak = weak_from_this()] {
    const auto self = weak.lock();
    if (self != nullptr) self->strand_.Post([self] { self->CheckStall(); });
  });
}

void LaneGroup::CheckStall() {
  stall_timer_ = {};
  if (calls_.empty() || agreement_.begun() || left_) return;
  SetStallTimer();
  // A call that is done and not retired does not count: only answers to its frames are missing.
  const auto first = std::find_if(calls_.begin(), calls_.end(), [](const auto& call) {
    return call.second.operation == nullptr || !call.second.operation->done();
  });
  if (first == calls_.end()) return;
  const CallState& oldest = first->second;
  const absl::Duration age = clock_.Now() - oldest.started;
  if (age < options_.stall_after) return;
  StalledCall stalled{
      options_.name, options_.rank, oldest.sequence, DescribeCall(oldest.call), age, {}};
  AskWhoIsMissing(oldest.sequence, [stalled = std::move(stalled)](const Missing& missing) mutable {
    stalled.missing = missing;
    LogStalledCall(stalled);
  });
}

void LaneGroup::AskWhoIsMissing(uint64_t sequence, absl::AnyInvocable<void(Missing)> then) {
  auto answers = std::make_shared<Answers>();
  answers->waits_for = static_cast<size_t>(options_.size) - 1;
  auto shared_then = std::make_shared<absl::AnyInvocable<void(Missing)>>(std::move(then));
  const auto end = [answers, shared_then] {
    Missing missing;
    for (const auto& [rank, words] : answers->missing) missing.push_back(words);
    (*shared_then)(std::move(missing));
  };
  if (answers->waits_for == 0) return end();
  for (int rank = 0; rank < options_.size; ++rank) {
    if (rank == options_.rank) continue;
    links_->AskProgress(
        rank, kAnswerWait,
        [self = shared_from_this(), answers, end, rank,
         sequence](absl::StatusOr<RankProgress> answer) {
          self->strand_.Post([answers, end, rank, sequence, answer = std::move(answer)] {
            if (!answer.ok()) {
              answers->missing[rank] = absl::StrCat(
                  "rank ", rank, " (does not answer: ", answer.status().message(), ")");
            } else if (answer->calls_started <= sequence) {
              answers->missing[rank] = MissingRank(rank, answer->last_done);
            }
            if (--answers->waits_for == 0) end();
          });
        });
  }
}

void LaneGroup::OnAskProgress(ProgressReply reply) {
  strand_.Post([self = shared_from_this(), reply = std::move(reply)]() mutable {
    reply(RankProgress{self->next_sequence_, self->recorder_->LastDone()});
  });
}

void LaneGroup::WatchAll() {
  for (int rank = 0; rank < options_.size; ++rank) {
    if (rank == options_.rank) continue;
    // The callback holds the group weakly, because a watch lasts until the other rank ends.
    links_->Watch(rank, [weak = weak_from_this(), rank](absl::StatusOr<RankLeft> left) {
      const auto self = weak.lock();
      if (self == nullptr) return;
      self->strand_.Post([self, rank, left = std::move(left)] {
        const InvariantsAfter check(*self);
        if (left.ok()) return self->PeerLeft(rank, *left);
        self->Lost(self->next_begin_, rank, left.status());
      });
    });
  }
}

void LaneGroup::OnWatch(LeftReply left) {
  strand_.Post([self = shared_from_this(), left = std::move(left)]() mutable {
    const InvariantsAfter check(*self);
    if (self->left_) return left(self->HowLeft());
    self->watchers_.push_back(std::move(left));
  });
}

void LaneGroup::Leave() {
  strand_.Post([self = shared_from_this()] {
    const InvariantsAfter check(*self);
    self->left_ = true;
    self->answers_.Release();
    if (self->stall_timer_.value != 0) self->clock_.Cancel(self->stall_timer_);
    for (LeftReply& left : self->watchers_) left(self->HowLeft());
    self->watchers_.clear();
  });
}

RankLeft LaneGroup::HowLeft() const {
  RankLeft how{next_sequence_, {}};
  if (agreement_.begun()) how.cause = agreement_.best();
  return how;
}

void LaneGroup::PeerLeft(int rank, const RankLeft& how) {
  // The answer may have overtaken the abort.
  if (how.cause) return Hear(*how.cause);
  left_peers_[rank] = how.calls_started;
  // The newest call suffices: a rank that takes part in it takes part in all earlier calls.
  if (next_sequence_ > 0) CheckLeft(next_sequence_ - 1);
}

void LaneGroup::CheckLeft(uint64_t sequence) {
  for (const auto& [rank, calls_started] : left_peers_) {
    if (calls_started > sequence || calls_.count(sequence) == 0) continue;
    Found(sequence, MakeError(absl::StatusCode::kFailedPrecondition,
                              absl::StrCat("rank ", rank, " has left the group after ",
                                           calls_started, " calls and does not take part in call ",
                                           sequence, ", ", DescribeCall(calls_.at(sequence).call)),
                              proto::APPLICATION));
  }
}

void LaneGroup::OnPeerFailed(uint64_t sequence, int rank, const absl::Status& status) {
  // The other rank has aborted the group. Its own cause comes by OnAbort() and counts more.
  if (status.code() == absl::StatusCode::kAborted) {
    return Raise(
        {AbortCause::Kind::kHeard, sequence, options_.rank,
         MakeError(absl::StatusCode::kAborted,
                   absl::StrCat("rank ", rank, " has aborted the group"), proto::TRANSIENT)});
  }
  Lost(sequence, rank, status);
}

void LaneGroup::OnBadFrame(uint64_t sequence, const absl::Status& status) {
  Found(sequence, status);
}

void LaneGroup::Found(uint64_t sequence, const absl::Status& status) {
  Raise({AbortCause::Kind::kFound, sequence, options_.rank, status});
}

std::string LaneGroup::NameOf(int rank) const {
  const auto index = static_cast<size_t>(rank);
  if (index >= options_.tasks.size()) return absl::StrCat("rank ", rank);
  return absl::StrCat("rank ", rank, ", ", TaskName(options_.tasks[index]), ",");
}

void LaneGroup::Lost(uint64_t sequence, int rank, const absl::Status& status) {
  const auto index = static_cast<size_t>(rank);
  proto::ErrorDetail detail;
  detail.set_error_class(proto::WORKER_LOST);
  if (index < options_.tasks.size()) *detail.mutable_origin() = options_.tasks[index];
  Raise({AbortCause::Kind::kLost, sequence, options_.rank,
         WithDetail(
             absl::UnavailableError(absl::StrCat(NameOf(rank), " was lost: ", NameOf(options_.rank),
                                                 " does not reach it: ", status.message())),
             detail)});
}

// Returns words for the end of an abort's cause which says that this rank is lost, although it
// lives: they name the ranks that this rank does not reach, so that the cause shows both sides.
// Empty for any other cause.
std::string LaneGroup::Besides() const {
  const auto own = static_cast<size_t>(options_.rank);
  const AbortCause& cause = agreement_.best();
  if (cause.kind != AbortCause::Kind::kLost || own >= options_.tasks.size() ||
      TaskName(DetailOf(cause.status).origin()) != TaskName(options_.tasks[own])) {
    return "";
  }
  std::string text;
  for (int rank = 0; rank < options_.size; ++rank) {
    if (rank == options_.rank || agreement_.HasAnswered(rank)) continue;
    absl::StrAppend(&text, "; besides, ", NameOf(options_.rank), " does not reach ", NameOf(rank),
                    " either");
  }
  return text;
}

void LaneGroup::Abort(absl::Status cause) {
  COHORT_CHECK(!cause.ok(), "an abort has a cause");
  strand_.Post([self = shared_from_this(), cause = std::move(cause)] {
    const InvariantsAfter check(*self);
    self->Found(self->next_sequence_, cause);
  });
}

void LaneGroup::WhenAborted(Communicator::Done aborted) {
  strand_.Post([self = shared_from_this(), aborted = std::move(aborted)]() mutable {
    const InvariantsAfter check(*self);
    if (self->settled_) return self->Tell(std::move(aborted), self->end_);
    self->tell_of_end_.push_back(std::move(aborted));
  });
}

void LaneGroup::OnAbort(AbortCause cause, CauseReply reply) {
  strand_.Post(
      [self = shared_from_this(), cause = std::move(cause), reply = std::move(reply)]() mutable {
        const InvariantsAfter check(*self);
        self->Hear(cause);
        reply(self->agreement_.begun() ? self->agreement_.best() : cause);
      });
}

// Takes the cause that another rank knows, if it is the better one.
void LaneGroup::Hear(const AbortCause& cause) {
  if (settled_ || left_) return;
  StopAll();
  if (agreement_.Offer(cause)) TellAll();
}

// Takes an error of this rank as the cause of an abort, unless this rank knows a cause already:
// later errors may be consequences of the first.
void LaneGroup::Raise(const AbortCause& cause) {
  if (agreement_.begun() || left_) return;
  StopAll();
  agreement_.Offer(cause);
  TellAll();
}

void LaneGroup::StopAll() {
  if (agreement_.begun()) return;
  for (auto& [sequence, state] : calls_) {
    if (state.operation != nullptr) state.operation->Stop();
  }
  // The answers to parked frames tell their senders that the group is aborted.
  for (auto& [sequence, frames] : parked_) {
    for (ParkedFrame& parked : frames) {
      parked.consumed(absl::AbortedError("the group has been aborted here"));
    }
  }
  parked_.clear();
  parked_frames_ = 0;
  links_->CancelFrames();
}

void LaneGroup::TellAll() {
  // The time to agree begins with the first round. Ranks that do not answer in it count as lost.
  if (agreement_.round() == 1) {
    clock_.CallAt(clock_.Now() + kAgreementWait, [weak = weak_from_this()] {
      const auto self = weak.lock();
      if (self != nullptr) self->strand_.Post([self] { self->Settle(); });
    });
  }
  const AbortCause& cause = agreement_.best();
  // Rank `given_up` is not waited for: the rank that gave it up has waited longer than this.
  const int given_up = RankGivenUp(cause.status, options_.tasks);
  if (given_up >= 0) agreement_.Excuse(given_up);
  const uint64_t round = agreement_.round();
  for (int rank = 0; rank < options_.size; ++rank) {
    if (rank == options_.rank) continue;
    links_->SendAbort(rank, cause, kAgreementWait,
                      [self = shared_from_this(), round, rank](absl::StatusOr<AbortCause> answer) {
                        self->strand_.Post([self, round, rank, answer = std::move(answer)] {
                          self->Told(round, rank, answer);
                        });
                      });
  }
  if (agreement_.agreed()) Settle();
}

void LaneGroup::Told(uint64_t round, int rank, const absl::StatusOr<AbortCause>& answer) {
  if (settled_) return;
  if (agreement_.Answer(round, rank, answer)) return TellAll();
  if (agreement_.agreed()) Settle();
}

void LaneGroup::Settle() {
  if (settled_) return;
  settled_ = true;
  const absl::Status cause = AbortedBy(options_.name, agreement_.best().status);
  end_ = WithDetail(absl::Status(cause.code(), absl::StrCat(cause.message(), Besides())),
                    DetailOf(cause));
  // The operations are collected first, because Fail() erases calls from calls_.
  std::vector<std::shared_ptr<Operation>> operations;
  std::vector<Communicator::Done> dones;  // the completions of calls that were not begun
  for (auto& [sequence, state] : calls_) {
    if (state.operation != nullptr) {
      operations.push_back(state.operation);
      continue;
    }
    if (state.timer.value != 0) clock_.Cancel(state.timer);
    dones.push_back(std::move(state.done));
  }
  for (Communicator::Done& aborted : std::exchange(tell_of_end_, {}))
    Tell(std::move(aborted), end_);
  for (const std::shared_ptr<Operation>& operation : operations) operation->Fail(end_);
  for (Communicator::Done& done : dones) Tell(std::move(done), end_);
}

}  // namespace cohort
