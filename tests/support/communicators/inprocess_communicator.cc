#include "tests/support/communicators/inprocess_communicator.h"

#include <atomic>
#include <map>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "common/base/mutex.h"
#include "common/base/status.h"
#include "tests/support/communicators/shared_work.h"

namespace cohort {

namespace {

// The calls of all ranks with one sequence number.
struct Meeting {
  explicit Meeting(size_t size) : calls(size), dones(size), came(size), timers(size) {}

  std::vector<CollectiveCall> calls;
  std::vector<Communicator::Done> dones;
  std::vector<char> came;  // by rank
  std::vector<TimerId> timers;
  size_t arrived = 0;
  size_t first = 0;  // who came first
  absl::Time began;  // when that one came
};

// Where what one rank sends is not what the other means to get.
std::optional<std::pair<size_t, size_t>> UnequalPair(const std::vector<CollectiveCall>& calls) {
  if (calls[0].op != CollectiveOp::kAllToAll) return std::nullopt;
  for (size_t from = 0; from < calls.size(); ++from) {
    for (size_t to = 0; to < calls.size(); ++to) {
      if (calls[from].counts[to] != calls[to].receive_counts[from]) return {{from, to}};
    }
  }
  return std::nullopt;
}

}  // namespace

// Always owned by a shared_ptr. Thread-safe.
class InProcessGroup::Meetings : public std::enable_shared_from_this<Meetings> {
 public:
  Meetings(Clock& clock, Executor& executor, Options options)
      : clock_(clock), executor_(executor), options_(std::move(options)), next_(Size()) {
    for (int rank = 0; rank < options_.size; ++rank) {
      recorders_.push_back(std::make_unique<FlightRecorder>(
          FlightRecorder::Owner{options_.name, rank, options_.size, {}, "in memory"}));
    }
  }

  int size() const { return options_.size; }
  const FlightRecorder& RecorderOf(int rank) const {
    return *recorders_[static_cast<size_t>(rank)];
  }

  void Start(size_t rank, CollectiveCall call, Communicator::Done done);
  void Abort(const absl::Status& cause);

 private:
  using MeetingPtr = std::shared_ptr<Meeting>;  // shared by the tasks of its work

  size_t Size() const { return static_cast<size_t>(options_.size); }
  // The cause for which the call ends the group; OK when it fits to those that came before it.
  absl::Status EnterLocked(size_t rank, uint64_t sequence, CollectiveCall call,
                           Communicator::Done done) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status CompareLocked(const Meeting& meeting, size_t rank, uint64_t sequence) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void RecordLocked(const Meeting& meeting, size_t rank, uint64_t sequence)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void SetTimer(size_t rank, uint64_t sequence, absl::Duration timeout);
  void CancelTimers(const Meeting& meeting);
  void Late(uint64_t sequence, size_t rank);
  // A timer that looks after calls as long as there are some that not all have started.
  void WatchForStallsLocked() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void LookForStall();
  std::vector<std::string> MissingLocked(const Meeting& meeting) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Work(uint64_t sequence, const MeetingPtr& meeting);
  void End(uint64_t sequence, Meeting& meeting, const absl::Status& status);

  Clock& clock_;
  Executor& executor_;
  const Options options_;
  std::vector<std::unique_ptr<FlightRecorder>> recorders_;  // synchronise themselves

  Mutex mutex_;
  std::vector<uint64_t> next_ ABSL_GUARDED_BY(mutex_);               // sequence, by rank
  std::map<uint64_t, MeetingPtr> meetings_ ABSL_GUARDED_BY(mutex_);  // not all have come
  absl::Status aborted_ ABSL_GUARDED_BY(mutex_);
  bool watched_for_stalls_ ABSL_GUARDED_BY(mutex_) = false;
};

void InProcessGroup::Meetings::Start(size_t rank, CollectiveCall call, Communicator::Done done) {
  absl::Status cause = CheckCall(call, static_cast<int>(rank), options_.size);
  const absl::Duration timeout = call.timeout;
  MeetingPtr meeting;
  bool complete = false;
  uint64_t sequence = 0;
  {
    MutexLock lock(mutex_);
    if (!aborted_.ok()) {
      return executor_.Run([done = std::move(done), status = aborted_]() mutable { done(status); });
    }
    sequence = next_[rank]++;
    if (cause.ok()) {
      cause = EnterLocked(rank, sequence, std::move(call), std::move(done));
      meeting = meetings_[sequence];
      complete = cause.ok() && meeting->arrived == Size();
      if (complete) meetings_.erase(sequence);
      if (!complete) WatchForStallsLocked();
    }
  }
  if (meeting == nullptr) {  // a call that cannot be joins none
    Abort(cause);
    return executor_.Run([this, self = shared_from_this(), done = std::move(done)]() mutable {
      absl::Status status;
      {
        MutexLock lock(mutex_);
        status = aborted_;
      }
      done(status);
    });
  }
  if (!cause.ok()) return Abort(cause);
  if (complete) return Work(sequence, meeting);
  if (timeout != absl::InfiniteDuration()) SetTimer(rank, sequence, timeout);
}

absl::Status InProcessGroup::Meetings::EnterLocked(size_t rank, uint64_t sequence,
                                                   CollectiveCall call, Communicator::Done done) {
  MeetingPtr& meeting = meetings_[sequence];
  if (meeting == nullptr) {
    meeting = std::make_shared<Meeting>(Size());
    meeting->first = rank;
    meeting->began = clock_.Now();
  }
  meeting->calls[rank] = std::move(call);
  meeting->dones[rank] = std::move(done);
  meeting->came[rank] = 1;
  ++meeting->arrived;
  RecordLocked(*meeting, rank, sequence);
  return CompareLocked(*meeting, rank, sequence);
}

absl::Status InProcessGroup::Meetings::CompareLocked(const Meeting& meeting, size_t rank,
                                                     uint64_t sequence) const {
  const auto differ = [&](size_t one, size_t other) {
    return MismatchError(sequence, {static_cast<int>(one), DescribeCall(meeting.calls[one])},
                         {static_cast<int>(other), DescribeCall(meeting.calls[other])});
  };
  if (FingerprintOf(meeting.calls[rank]) != FingerprintOf(meeting.calls[meeting.first])) {
    return differ(meeting.first, rank);
  }
  if (meeting.arrived < Size()) return absl::OkStatus();
  if (const auto pair = UnequalPair(meeting.calls); pair.has_value()) {
    const auto [from, to] = *pair;
    return Annotate(
        differ(from, to),
        absl::StrCat("rank ", from, " sends ", meeting.calls[from].counts[to], " elements to rank ",
                     to, ", which means to receive ", meeting.calls[to].receive_counts[from]));
  }
  return absl::OkStatus();
}

void InProcessGroup::Meetings::RecordLocked(const Meeting& meeting, size_t rank,
                                            uint64_t sequence) {
  const absl::Time now = clock_.Now();
  FlightRecorder::Begin begin{sequence, &meeting.calls[rank], CollectiveAlgorithm::kTwoShot, {}};
  for (size_t other = 0; other < Size(); ++other) {
    if (!meeting.came[other]) {
      begin.waits_for.push_back(static_cast<int>(other));
    } else if (other != rank) {
      recorders_[other]->Heard(sequence, static_cast<int>(rank), now);
    }
  }
  recorders_[rank]->Started(std::move(begin), now);
}

void InProcessGroup::Meetings::SetTimer(size_t rank, uint64_t sequence, absl::Duration timeout) {
  const TimerId timer =
      clock_.CallAt(clock_.Now() + timeout, [weak = weak_from_this(), sequence, rank] {
        const auto self = weak.lock();
        if (self == nullptr) return;
        self->executor_.Run([self, sequence, rank] { self->Late(sequence, rank); });
      });
  {
    MutexLock lock(mutex_);
    const auto found = meetings_.find(sequence);
    if (found != meetings_.end()) {
      found->second->timers[rank] = timer;
      return;
    }
  }
  clock_.Cancel(timer);  // the meeting has begun meanwhile
}

void InProcessGroup::Meetings::Late(uint64_t sequence, size_t rank) {
  absl::Status cause;
  {
    MutexLock lock(mutex_);
    const auto found = meetings_.find(sequence);
    if (found == meetings_.end()) return;
    const CollectiveCall& call = found->second->calls[rank];
    cause = LateError(sequence, DescribeCall(call), call.timeout, MissingLocked(*found->second));
  }
  Abort(cause);
}

std::vector<std::string> InProcessGroup::Meetings::MissingLocked(const Meeting& meeting) const {
  std::vector<std::string> missing;
  for (size_t rank = 0; rank < Size(); ++rank) {
    if (meeting.came[rank]) continue;
    missing.push_back(MissingRank(static_cast<int>(rank), recorders_[rank]->LastDone()));
  }
  return missing;
}

void InProcessGroup::Meetings::WatchForStallsLocked() {
  if (watched_for_stalls_ || options_.stall_after == absl::InfiniteDuration()) return;
  watched_for_stalls_ = true;
  clock_.CallAt(clock_.Now() + options_.stall_after, [weak = weak_from_this()] {
    const auto self = weak.lock();
    if (self != nullptr) self->executor_.Run([self] { self->LookForStall(); });
  });
}

void InProcessGroup::Meetings::LookForStall() {
  StalledCall stalled;
  {
    MutexLock lock(mutex_);
    watched_for_stalls_ = false;
    if (meetings_.empty()) return;
    WatchForStallsLocked();
    const auto& [sequence, oldest] = *meetings_.begin();
    const absl::Duration age = clock_.Now() - oldest->began;
    if (age < options_.stall_after) return;
    stalled = {options_.name, static_cast<int>(oldest->first),
               sequence,      DescribeCall(oldest->calls[oldest->first]),
               age,           MissingLocked(*oldest)};
  }
  LogStalledCall(stalled);
}

void InProcessGroup::Meetings::Work(uint64_t sequence, const MeetingPtr& meeting) {
  CancelTimers(*meeting);
  auto work = std::make_shared<const SharedWork>(meeting->calls);
  const int pieces = work->PiecesFor(options_.tasks_max);
  auto left = std::make_shared<std::atomic<int>>(pieces);
  for (int piece = 0; piece < pieces; ++piece) {
    executor_.Run([self = shared_from_this(), sequence, meeting, work, left, piece, pieces] {
      work->Do(piece, pieces);
      if (left->fetch_sub(1) == 1) self->End(sequence, *meeting, absl::OkStatus());
    });
  }
}

void InProcessGroup::Meetings::CancelTimers(const Meeting& meeting) {
  for (const TimerId timer : meeting.timers) {
    if (timer.value != 0) clock_.Cancel(timer);
  }
}

void InProcessGroup::Meetings::End(uint64_t sequence, Meeting& meeting,
                                   const absl::Status& status) {
  const absl::Time now = clock_.Now();
  for (size_t rank = 0; rank < Size(); ++rank) {
    if (meeting.came[rank]) recorders_[rank]->Ended(sequence, status, now);
  }
  for (size_t rank = 0; rank < Size(); ++rank) {
    if (meeting.came[rank]) meeting.dones[rank](status);
  }
}

void InProcessGroup::Meetings::Abort(const absl::Status& cause) {
  std::map<uint64_t, MeetingPtr> waiting;
  absl::Status status;
  {
    MutexLock lock(mutex_);
    if (!aborted_.ok()) return;
    aborted_ = AbortedBy(options_.name, cause);
    status = aborted_;
    waiting.swap(meetings_);
  }
  for (const auto& [sequence, meeting] : waiting) {
    CancelTimers(*meeting);
    executor_.Run([self = shared_from_this(), sequence = sequence, meeting = meeting, status] {
      self->End(sequence, *meeting, status);
    });
  }
}

// Thread-safe.
class InProcessGroup::Rank final : public Communicator {
 public:
  Rank(std::shared_ptr<Meetings> meetings, int rank)
      : meetings_(std::move(meetings)), rank_(rank) {}

  int rank() const override { return rank_; }
  int size() const override { return meetings_->size(); }
  absl::StatusOr<std::shared_ptr<Buffer>> Allocate(size_t bytes) override {
    return Buffer::Allocate(bytes);
  }
  void Start(CollectiveCall call, Done done) override {
    meetings_->Start(static_cast<size_t>(rank_), std::move(call), std::move(done));
  }
  void Abort(absl::Status root_cause) override { meetings_->Abort(root_cause); }

 private:
  const std::shared_ptr<Meetings> meetings_;  // shared by all ranks
  const int rank_;
};

InProcessGroup::InProcessGroup(Clock& clock, Executor& executor, Options options)
    : meetings_(std::make_shared<Meetings>(clock, executor, std::move(options))) {
  COHORT_CHECK(meetings_->size() >= 1 && meetings_->size() <= kRanksMax, "1 to kRanksMax ranks");
}

InProcessGroup::~InProcessGroup() = default;

std::unique_ptr<Communicator> InProcessGroup::CommunicatorOf(int rank) {
  COHORT_CHECK(rank >= 0 && rank < meetings_->size(), "a rank of the group");
  return std::make_unique<Rank>(meetings_, rank);
}

const FlightRecorder& InProcessGroup::RecorderOf(int rank) const {
  return meetings_->RecorderOf(rank);
}

}  // namespace cohort
