#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "common/wire/error_detail.h"
#include "worker/collective/lanes/lane_group.h"

namespace cohort {

namespace {

// How long a rank waits for others' words about the cause. A lost one does not answer.
constexpr absl::Duration kAgreementWait = absl::Milliseconds(500);

}  // namespace

void LaneGroup::WatchAll() {
  for (int rank = 0; rank < options_.size; ++rank) {
    if (rank == options_.rank) continue;
    // Weak: the watch lasts as long as the peer.
    lanes_->Watch(rank, [weak = weak_from_this(), rank](absl::StatusOr<uint64_t> left) {
      const auto self = weak.lock();
      if (self == nullptr) return;
      self->strand_.Post([self, rank, left = std::move(left)] {
        if (left.ok()) return self->PeerLeft(rank, *left);
        self->Lost(self->next_begin_, rank, left.status());
      });
    });
  }
}

void LaneGroup::OnWatch(LeftReply left) {
  strand_.Post([self = shared_from_this(), left = std::move(left)]() mutable {
    if (self->left_) return left(self->next_sequence_);
    self->watchers_.push_back(std::move(left));
  });
}

void LaneGroup::Leave() {
  strand_.Post([self = shared_from_this()] {
    self->left_ = true;
    self->answers_.Release();
    if (self->stall_timer_.value != 0) self->clock_.Cancel(self->stall_timer_);
    for (LeftReply& left : self->watchers_) left(self->next_sequence_);
    self->watchers_.clear();
  });
}

void LaneGroup::PeerLeft(int rank, uint64_t calls_started) {
  left_peers_[rank] = calls_started;
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
  if (status.code() == absl::StatusCode::kAborted) {
    return Raise({AbortCause::Kind::kHeard, sequence, options_.rank,
                  MakeError(absl::StatusCode::kAborted,
                            absl::StrCat("rank ", rank, " has aborted the group"),
                            proto::TRANSIENT)});
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
         WithDetail(absl::UnavailableError(
                        absl::StrCat(NameOf(rank), " was lost: ", NameOf(options_.rank),
                                     " does not reach it: ", status.message())),
                    detail)});
}

// A rank that is said to be lost, and is not, says whom it does not reach itself: the same cause
// then has two sides.
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
    absl::StrAppend(&text, "; besides, ", NameOf(options_.rank), " does not reach ",
                    NameOf(rank), " either");
  }
  return text;
}

void LaneGroup::Abort(absl::Status cause) {
  COHORT_CHECK(!cause.ok(), "an abort has a cause");
  strand_.Post([self = shared_from_this(), cause = std::move(cause)] {
    self->Found(self->next_sequence_, cause);
  });
}

void LaneGroup::WhenAborted(Communicator::Done told) {
  strand_.Post([self = shared_from_this(), told = std::move(told)]() mutable {
    if (self->settled_) return self->Tell(std::move(told), self->end_);
    self->tell_of_end_.push_back(std::move(told));
  });
}

void LaneGroup::OnAbort(AbortCause cause, CauseReply reply) {
  strand_.Post(
      [self = shared_from_this(), cause = std::move(cause), reply = std::move(reply)]() mutable {
        if (!self->settled_ && !self->left_) {
          self->StopAll();
          if (self->agreement_.Offer(cause)) self->TellAll();
        }
        reply(self->agreement_.begun() ? self->agreement_.best() : cause);
      });
}

// Only the first cause of a rank's own counts: what it finds later may be a consequence.
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
  for (auto& [sequence, frames] : parked_) {
    for (ParkedFrame& parked : frames) {
      parked.consumed(absl::AbortedError("the group has been aborted here"));
    }
  }
  parked_.clear();
  parked_frames_ = 0;
  lanes_->CancelFrames();
}

void LaneGroup::TellAll() {
  if (agreement_.round() == 1) {
    clock_.CallAt(clock_.Now() + kAgreementWait, [weak = weak_from_this()] {
      const auto self = weak.lock();
      if (self != nullptr) self->strand_.Post([self] { self->Settle(); });
    });
  }
  const AbortCause& cause = agreement_.best();
  // Whoever gave it up has waited for it, longer than for an answer here.
  const int given_up = RankGivenUp(cause.status, options_.tasks);
  if (given_up >= 0) agreement_.Excuse(given_up);
  const uint64_t round = agreement_.round();
  for (int rank = 0; rank < options_.size; ++rank) {
    if (rank == options_.rank) continue;
    lanes_->SendAbort(rank, cause, kAgreementWait,
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
  std::vector<std::shared_ptr<Operation>> operations;
  std::vector<Communicator::Done> dones;  // of calls that were not begun
  for (auto& [sequence, state] : calls_) {
    if (state.operation != nullptr) {
      operations.push_back(state.operation);
      continue;
    }
    if (state.timer.value != 0) clock_.Cancel(state.timer);
    dones.push_back(std::move(state.done));
  }
  for (Communicator::Done& told : std::exchange(tell_of_end_, {})) Tell(std::move(told), end_);
  for (const std::shared_ptr<Operation>& operation : operations) operation->Fail(end_);
  for (Communicator::Done& done : dones) Tell(std::move(done), end_);
}

}  // namespace cohort
