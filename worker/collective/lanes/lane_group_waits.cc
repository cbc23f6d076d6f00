#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "worker/collective/lanes/lane_group.h"

namespace cohort {

namespace {

// A rank that is alive answers a question on a connection of its own within this.
constexpr absl::Duration kAnswerWait = absl::Milliseconds(500);

// The answers of all ranks to one question. Lives on the strand of the group.
struct Answers {
  size_t waits_for = 0;
  std::map<int, std::string> missing;  // by rank, in words
};

}  // namespace

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
  // A call may be done and not have retired, because answers to its frames wait.
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
    lanes_->AskProgress(
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

}  // namespace cohort
