#include "worker/collective/lanes/lane_group.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

namespace cohort {

namespace {

// Of calls that have retired; a rank is behind another by fewer.
constexpr size_t kPastCallsMax = 256;
// Else a sender whose window is full would wait for answers that are held.
static_assert(LateAnswers::kFramesToAnswer <= Operation::kFramesToPeerMax);

// A peer has so many frames unanswered in each call that it may be ahead; more is a mistake.
size_t ParkedFramesMax(int size) {
  return static_cast<size_t>(size) * Operation::kFramesToPeerMax * LaneCommunicator::kOperationsMax;
}

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

absl::InlinedVector<int, 8> SendersTo(const RankPlan& plan) {
  absl::InlinedVector<int, 8> ranks;
  for (const PlanStep& step : plan.steps) {
    if (step.kind != PlanStep::Kind::kReceive) continue;
    if (std::find(ranks.begin(), ranks.end(), step.peer) == ranks.end()) ranks.push_back(step.peer);
  }
  return ranks;
}

}  // namespace

LaneGroup::LaneGroup(Clock& clock, Executor& executor, std::unique_ptr<Lanes> lanes,
                     LaneGroupOptions options)
    : clock_(clock),
      executor_(executor),
      options_(Completed(std::move(options))),
      lanes_(std::move(lanes)),
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
  if (settled_) return Tell(std::move(done), end_);
  const uint64_t sequence = next_sequence_++;
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
  if (agreement_.begun()) return;  // ends when the cause is settled
  if (!status.ok()) return Found(sequence, status);
  SetTimer(state);
  SetStallTimer();
  CheckLeft(sequence);
  BeginNext();
}

void LaneGroup::BeginNext() {
  while (!agreement_.begun() && next_begin_ < next_sequence_ &&
         under_way_ < LaneCommunicator::kOperationsMax) {
    const uint64_t sequence = next_begin_++;
    ++under_way_;
    Begin(calls_[sequence]);
    HandleParked(sequence);
  }
}

void LaneGroup::Begin(CallState& state) {
  const PlanInput in{state.call, options_.rank, options_.size, options_.hosts};
  const bool moves = state.carries == Carries::kElements;
  const CollectiveAlgorithm algorithm =
      moves ? ChooseAlgorithm(in).algorithm : CollectiveAlgorithm::kAuto;
  OperationSetup setup;
  setup.sequence = state.sequence;
  setup.call = state.call;
  setup.description = DescribeCall(state.call);
  setup.plan = moves ? PlanOf(in, algorithm) : AgreementPlan(in);
  setup.rank = options_.rank;
  setup.size = options_.size;
  setup.answers_may_wait = under_way_ <= LaneCommunicator::kOperationsMax / 2;
  recorder_->Started({state.sequence, &state.call, algorithm, SendersTo(setup.plan)},
                     state.started);
  state.operation = std::make_shared<Operation>(
      shared_from_this(), OperationWays{strand_, *lanes_, places_}, std::move(setup));
  const std::shared_ptr<Operation> operation = state.operation;  // the state may go meanwhile
  operation->Begin();
}

void LaneGroup::OnFrame(CollectiveFrame frame, Consumed consumed) {
  // Another thread would take longer to wake up than the frame takes.
  strand_.RunOrPost([self = shared_from_this(), frame = std::move(frame),
                     consumed = std::move(consumed)]() mutable {
    self->HandleFrame(std::move(frame), std::move(consumed));
  });
}

void LaneGroup::HandleFrame(CollectiveFrame frame, Consumed consumed) {
  if (agreement_.begun()) return consumed(absl::AbortedError("the group has been aborted here"));
  if (frame.from < 0 || frame.from >= options_.size || frame.from == options_.rank) {
    return consumed(absl::InvalidArgumentError(absl::StrCat("no rank ", frame.from, " here")));
  }
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
    ComparePast(frame);
  } else if (SameCall(*found->second.operation, frame)) {
    recorder_->Heard(frame.sequence, frame.from, clock_.Now());
    const std::shared_ptr<Operation> operation = found->second.operation;
    operation->OnFrame(std::move(frame));
  }
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

// A call may be done here without having heard of every rank.
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
  // Here: another thread would take longer to wake up than a short call takes.
  std::exchange(state.done, nullptr)(status);
}

// Of what does not end by a frame: nobody is in a hurry.
void LaneGroup::Tell(Communicator::Done done, const absl::Status& status) {
  executor_.Run([done = std::move(done), status]() mutable { done(status); });
}

void LaneGroup::OnRetired(uint64_t sequence) {
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

LaneCommunicator::LaneCommunicator(Clock& clock, Executor& executor,
                                   std::shared_ptr<GroupTable> table, std::unique_ptr<Lanes> lanes,
                                   LaneGroupOptions options)
    : table_(std::move(table)),
      group_(std::make_shared<LaneGroup>(clock, executor, std::move(lanes), std::move(options))) {
  table_->Add(group_->options().name, group_);
  group_->WatchAll();
}

LaneCommunicator::~LaneCommunicator() {
  table_->Remove(group_->options().name);
  group_->Leave();
}

int LaneCommunicator::rank() const { return group_->options().rank; }
int LaneCommunicator::size() const { return group_->options().size; }

absl::StatusOr<std::shared_ptr<Buffer>> LaneCommunicator::Allocate(size_t bytes) {
  return Buffer::Allocate(bytes);
}

void LaneCommunicator::Start(CollectiveCall call, Done done) {
  group_->Start(std::move(call), LaneGroup::Carries::kElements, std::move(done));
}

void LaneCommunicator::Agree(CollectiveCall call, Done agreed) {
  group_->Start(std::move(call), LaneGroup::Carries::kNothing, std::move(agreed));
}

void LaneCommunicator::WhenAborted(Done told) { group_->WhenAborted(std::move(told)); }

void LaneCommunicator::Abort(absl::Status root_cause) { group_->Abort(std::move(root_cause)); }

std::shared_ptr<const FlightRecorder> LaneCommunicator::recorder() const {
  return group_->recorder();
}
LaneCounters LaneCommunicator::counters() const { return group_->counters(); }

}  // namespace cohort
