#include "worker/collective/nccl/nccl_calls.h"

#include <utility>

#include "common/base/check.h"

namespace cohort {

void NcclCalls::NewsLocked() {
  news_ = true;
  changed_.NotifyAll();
}

void NcclCalls::Answered(uint64_t sequence, const absl::Status& status) {
  MutexLock lock(mutex_);
  State& state = calls_.at(sequence);
  COHORT_CHECK(state.phase == Phase::kAsked, "a call is answered once");
  state.phase = status.ok() ? Phase::kAgreed : Phase::kRefused;
  // The first error with which the control group answers is the cause for which the group ends.
  if (end_.ok()) end_ = status;
  NewsLocked();
}

void NcclCalls::End(const absl::Status& cause) {
  MutexLock lock(mutex_);
  if (end_.ok()) end_ = cause;
  NewsLocked();
}

void NcclCalls::PieceThrough() {
  MutexLock lock(mutex_);
  ++pieces_through_;
  NewsLocked();
}

void NcclCalls::Stop() {
  MutexLock lock(mutex_);
  COHORT_CHECK(calls_.empty(), "a communicator ends after its calls");
  stopped_ = true;
  NewsLocked();
}

void NcclCalls::WaitForNews(absl::Duration timeout) {
  // The loop ends when there is news, or at the timeout, when WaitFor() returns false.
  MutexLock lock(mutex_);
  while (!news_ && changed_.WaitFor(mutex_, timeout)) {
  }
  news_ = false;
}

void NcclCalls::WaitForEnd(absl::Duration timeout) {
  MutexLock lock(mutex_);
  while (end_.ok() && !stopped_ && changed_.WaitFor(mutex_, timeout)) {
  }
}

void NcclCalls::JoinAnswered(const absl::Status& status) {
  MutexLock lock(mutex_);
  join_answer_ = status;
  NewsLocked();
}

std::optional<absl::Status> NcclCalls::WaitForJoinAnswer() {
  MutexLock lock(mutex_);
  while (!join_answer_.has_value() && !stopped_) changed_.Wait(mutex_);
  return std::exchange(join_answer_, std::nullopt);
}

bool NcclCalls::stopped() const {
  MutexLock lock(mutex_);
  return stopped_;
}

absl::Status NcclCalls::end() const {
  MutexLock lock(mutex_);
  return end_;
}

uint64_t NcclCalls::pieces_through() const {
  MutexLock lock(mutex_);
  return pieces_through_;
}

const NcclCall* NcclCalls::TakeNew() {
  MutexLock lock(mutex_);
  const auto found = calls_.lower_bound(next_new_);
  if (found == calls_.end()) return nullptr;
  // The control group is asked about calls in the order of their sequence numbers, as on all ranks.
  COHORT_CHECK(found->second.phase == Phase::kNew, "calls are taken in their order");
  found->second.phase = Phase::kAsked;
  next_new_ = found->first + 1;
  return &found->second.call;
}

const NcclCall* NcclCalls::Agreed(uint64_t sequence) const {
  MutexLock lock(mutex_);
  const auto found = calls_.find(sequence);
  const bool agreed = found != calls_.end() && found->second.phase == Phase::kAgreed;
  return agreed ? &found->second.call : nullptr;
}

std::vector<const NcclCall*> NcclCalls::AllAgreed() const {
  MutexLock lock(mutex_);
  std::vector<const NcclCall*> agreed;
  for (const auto& [sequence, state] : calls_) {
    if (state.phase == Phase::kAgreed) agreed.push_back(&state.call);
  }
  return agreed;
}

std::vector<uint64_t> NcclCalls::Endable() const {
  MutexLock lock(mutex_);
  std::vector<uint64_t> endable;
  for (const auto& [sequence, state] : calls_) {
    // A call in the state asked is left out, because the control group will answer it.
    if (state.phase != Phase::kAsked) endable.push_back(sequence);
  }
  return endable;
}

Communicator::Done NcclCalls::TakeOut(uint64_t sequence) {
  MutexLock lock(mutex_);
  const auto found = calls_.find(sequence);
  COHORT_CHECK(found != calls_.end() && found->second.phase != Phase::kAsked,
               "a call that waits for the control group's answer is not taken out");
  Communicator::Done done = std::move(found->second.call.done);
  calls_.erase(found);
  return done;
}

bool NcclCalls::empty() const {
  MutexLock lock(mutex_);
  return calls_.empty();
}

}  // namespace cohort
