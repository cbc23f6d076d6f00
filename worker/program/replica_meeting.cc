#include "worker/program/replica_meeting.h"

#include <utility>

#include "worker/replicas/join_replicas.h"

namespace cohort {

// The object through which one replica takes part in the meetings. Thread-safe.
class ReplicaMeeting::ReplicaSeat final : public ReplicaExchange {
 public:
  ReplicaSeat(ReplicaMeeting& meeting, size_t rank, double share)
      : meeting_(meeting), rank_(rank), share_(share) {}

  double share() const override { return share_; }
  void Join(const ExchangeCall& call, Done done) override {
    meeting_.Join(rank_, call, std::move(done));
  }

 private:
  ReplicaMeeting& meeting_;
  const size_t rank_;
  const double share_;
};

ReplicaMeeting::ReplicaMeeting(const std::vector<double>& shares, std::shared_ptr<OutputPool> pool,
                               std::optional<OtherWorkers> others)
    : pool_(std::move(pool)),
      others_(std::move(others)),
      arrivals_(shares.size()),
      missing_(shares.size()),
      relayed_(shares.size(), false) {
  for (size_t rank = 0; rank < shares.size(); ++rank) {
    seats_.push_back(std::make_unique<ReplicaSeat>(*this, rank, shares[rank]));
  }
}

ReplicaMeeting::~ReplicaMeeting() = default;

ReplicaExchange& ReplicaMeeting::Seat(size_t rank) { return *seats_[rank]; }

void ReplicaMeeting::Join(size_t rank, const ExchangeCall& call, ReplicaExchange::Done done) {
  // The value is copied, because the replica may reuse the value's memory after Join() returns.
  absl::StatusOr<Tensor> copy = Weighted(call.value, 1, *pool_);
  if (!copy.ok()) return done(copy.status());
  std::vector<Arrival> all;
  absl::Status error;
  {
    MutexLock lock(mutex_);
    error = error_;
    if (!error.ok()) {
      relayed_[rank] = true;
    } else {
      arrivals_[rank] = {call, std::move(done)};
      arrivals_[rank].call.value = *std::move(copy);
      // The last replica to arrive takes the calls of all replicas and leaves `arrivals_` empty for
      // the next meeting.
      if (--missing_ > 0) return;
      missing_ = arrivals_.size();
      all = std::exchange(arrivals_, std::vector<Arrival>(arrivals_.size()));
    }
  }
  // `done` is called outside the lock, because it continues the replica's run, which may call
  // Join() again.
  if (!error.ok()) return done(std::move(error));
  Meet(std::move(all), rank);
}

// Joins the values of this worker's replicas. In a gang, starts the exchange of the joined value
// with the other workers.
void ReplicaMeeting::Meet(std::vector<Arrival> all, size_t last) {
  Meeting meeting;
  meeting.last = last;
  std::vector<ExchangeCall> calls;
  for (Arrival& arrival : all) {
    meeting.sizes.push_back(arrival.call.size);
    meeting.waiting.push_back(std::move(arrival.done));
    calls.push_back(std::move(arrival.call));
  }
  absl::StatusOr<ExchangeCall> joined = JoinLocalCalls(std::move(calls));
  if (!joined.ok()) return HandOut(std::move(meeting), joined.status());
  meeting.call = *joined;
  // The joined value goes to the other workers or becomes the result. Later, only the call's other
  // fields are needed, to split the result.
  meeting.call.value = Tensor();
  if (!others_.has_value()) {
    return HandOut(std::move(meeting), WholeExchange{std::move(joined->value), 0, joined->size});
  }
  ExchangeOverGroup(
      others_->workers, *std::move(joined),
      [this, meeting = std::move(meeting)](auto whole) mutable {
        // The replicas' continuations compute. So they are posted, and do not run on the
        // communicator's thread.
        others_->post([this, meeting = std::move(meeting), whole = std::move(whole)]() mutable {
          if (!whole.ok()) SetGroupError(whole.status());
          HandOut(std::move(meeting), std::move(whole));
        });
      });
}

void ReplicaMeeting::HandOut(Meeting meeting, absl::StatusOr<WholeExchange> whole) {
  const size_t here = meeting.waiting.size();
  std::vector<absl::StatusOr<Tensor>> answers(here, absl::UnknownError("no answer"));
  if (whole.ok()) {
    answers = SplitResult(meeting.call, *std::move(whole), meeting.sizes,
                          others_.has_value() ? others_->replicas : static_cast<int64_t>(here));
  } else {
    answers.assign(here, whole.status());
  }
  // The last replica to arrive gets its answer last, because its continuation may end the whole
  // run, which destroys this ReplicaMeeting.
  for (size_t rank = 0; rank < here; ++rank) {
    if (rank != meeting.last) meeting.waiting[rank](std::move(answers[rank]));
  }
  meeting.waiting[meeting.last](std::move(answers[meeting.last]));
}

void ReplicaMeeting::SetGroupError(const absl::Status& error) {
  MutexLock lock(mutex_);
  group_error_.Update(error);
}

absl::Status ReplicaMeeting::GroupError() const {
  MutexLock lock(mutex_);
  return group_error_;
}

void ReplicaMeeting::Leave(size_t rank, const absl::Status& error) {
  std::vector<ReplicaExchange::Done> waiting;
  {
    MutexLock lock(mutex_);
    // Only the first error counts: the replicas that waited have already got it.
    if (!error_.ok()) return;
    error_ = error;
    for (size_t other = 0; other < arrivals_.size(); ++other) {
      if (!arrivals_[other].done || other == rank) continue;
      relayed_[other] = true;
      waiting.push_back(std::move(arrivals_[other].done));
    }
  }
  // The continuations are called outside the lock, because a replica that gets the error calls
  // Leave().
  for (ReplicaExchange::Done& done : waiting) done(error);
}

bool ReplicaMeeting::WasRelayed(size_t rank) const {
  MutexLock lock(mutex_);
  return relayed_[rank];
}

}  // namespace cohort
