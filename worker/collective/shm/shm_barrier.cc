#include "worker/collective/shm/shm_barrier.h"

#include <linux/futex.h>
#include <poll.h>
#include <sched.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <climits>
#include <cstdint>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "common/base/check.h"
#include "common/base/status.h"
#include "common/wire/error_detail.h"
#include "worker/collective/flight_recorder.h"

namespace cohort {

namespace {

// Sleeps while `word` is `value`, at most for `timeout`; may wake for no reason. The word may be
// shared with other processes.
inline void FutexWait(std::atomic<uint32_t>& word, uint32_t value, absl::Duration timeout) {
  const timespec time = absl::ToTimespec(timeout);
  syscall(SYS_futex, reinterpret_cast<uint32_t*>(&word), FUTEX_WAIT, value, &time, nullptr, 0);
}

inline void FutexWakeAll(std::atomic<uint32_t>& word) {
  syscall(SYS_futex, reinterpret_cast<uint32_t*>(&word), FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

// The interval at which a sleeping rank checks whether the other ranks are alive.
constexpr absl::Duration kLookAround = absl::Milliseconds(50);
// How long a waiting rank polls: about twice the cost of a wake-up, which is some 30 us.
constexpr std::chrono::microseconds kLookTime{60};
// The first part of kLookTime, in which a polling rank does not yield its core.
constexpr std::chrono::microseconds kAloneTime{20};
// The number of polls between two readings of the clock, which cost more than a poll.
constexpr int kLooksBetweenClocks = 64;

void Pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

// Writes a status into shared memory. An ErrorDetail that is too long is left out; a message that
// is too long is cut off.
void WriteText(const absl::Status& status, ShmText& text) {
  const std::string detail = DetailOf(status).SerializeAsString();
  const size_t detail_bytes = detail.size() <= ShmText::kBytesMax / 2 ? detail.size() : 0;
  const size_t message_bytes = std::min(status.message().size(), ShmText::kBytesMax - detail_bytes);
  text.code = static_cast<int32_t>(status.code());
  text.message_bytes = static_cast<uint32_t>(message_bytes);
  text.detail_bytes = static_cast<uint32_t>(detail_bytes);
  std::memcpy(text.bytes.data(), status.message().data(), message_bytes);
  std::memcpy(text.bytes.data() + message_bytes, detail.data(), detail_bytes);
}

absl::Status ReadText(const ShmText& text) {
  // The sizes are limited, because another process wrote them and this one must not read past the
  // text.
  const size_t message_bytes = std::min<size_t>(text.message_bytes, ShmText::kBytesMax);
  const size_t detail_bytes =
      std::min<size_t>(text.detail_bytes, ShmText::kBytesMax - message_bytes);
  const absl::Status status(static_cast<absl::StatusCode>(text.code),
                            absl::string_view(text.bytes.data(), message_bytes));
  proto::ErrorDetail detail;
  if (!detail.ParseFromArray(text.bytes.data() + message_bytes, static_cast<int>(detail_bytes)) ||
      detail.error_class() == proto::ERROR_CLASS_UNKNOWN) {
    return status;
  }
  return WithDetail(status, detail);
}

}  // namespace

ShmBarrier::ShmBarrier(Options options)
    : name_(std::move(options.name)),
      segment_(std::move(options.segment)),
      rank_(options.rank),
      lives_(std::move(options.lives)),
      members_(std::move(options.members)),
      deadline_(std::move(options.deadline)),
      stall_after_(options.stall_after),
      stalled_(std::move(options.stalled)),
      quiet_wait_(options.quiet_wait),
      at_step_(std::move(options.at_step)) {
  COHORT_CHECK(static_cast<int>(lives_.size()) == size(), "there is one life for each rank");
}

ShmBarrier::~ShmBarrier() {
  segment_->block(rank_).left.store(1);
  RingBell();
}

// Proof that no rank sleeps forever: all ranks see the stores of `arrived`, the loads in
// AllArrived() and the changes of `sleepers` in one order. The rank whose store of `arrived` is
// last in that order sees that all ranks have arrived, and then reads `sleepers`. A sleeper that it
// does not see yet reads the words of all ranks after that, finds that all ranks have arrived, and
// does not sleep. If it sees a sleeper, it rings the bell. A sleeper that reads the bell after the
// change then also finds that all ranks have arrived; a sleeper that has read the bell before is
// woken by the change.
absl::Status ShmBarrier::Wait() {
  At(BarrierStep::kReaches);
  ++arrived_;
  segment_->block(rank_).arrived.store(arrived_);
  At(BarrierStep::kArrived);
  RETURN_IF_ERROR(WaitForAll());
  At(BarrierStep::kPassed);
  return absl::OkStatus();
}

absl::Status ShmBarrier::WaitForAll() {
  if (!AllArrived()) return Look() ? absl::OkStatus() : Sleep();
  // This rank may be the last to arrive, so it wakes the ranks that sleep.
  if (segment_->header().sleepers.load() != 0) RingBell();
  return absl::OkStatus();
}

void ShmBarrier::At(BarrierStep step) {
  if (at_step_) at_step_(step);
}

bool ShmBarrier::AllArrived() const {
  for (int rank = 0; rank < size(); ++rank) {
    if (segment_->block(rank).arrived.load() < arrived_) return false;
  }
  return true;
}

void ShmBarrier::RingBell() {
  segment_->header().bell.fetch_add(1);
  FutexWakeAll(segment_->header().bell);
}

// Polls the words (`arrived`) of all ranks; returns true if all ranks have arrived. Even with a
// core for each rank, two ranks may share a core, and a polling rank then keeps the other from
// arriving. So a rank that has polled for some time lets other threads run.
bool ShmBarrier::Look() {
  const Time start = std::chrono::steady_clock::now();
  const auto alone = segment_->plan().spins != 0 ? kAloneTime : std::chrono::microseconds::zero();
  Time now = start;
  do {
    if (now - start < alone) {
      for (int i = 0; i < kLooksBetweenClocks; ++i) {
        if (AllArrived()) return true;
        Pause();
      }
    } else {
      sched_yield();
      if (AllArrived()) return true;
    }
    now = std::chrono::steady_clock::now();
  } while (!aborted() && now - start < kLookTime);
  // A rank may have arrived since the last poll.
  return AllArrived();
}

absl::Status ShmBarrier::Sleep() {
  ShmHeader& header = segment_->header();
  absl::Status status;
  waits_since_ = std::chrono::steady_clock::now();
  reported_ = absl::ZeroDuration();
  while (true) {
    // This rank counts itself as a sleeper before it reads the bell and the words of all ranks; the
    // proof at Wait() needs this order.
    header.sleepers.fetch_add(1);
    const uint32_t bell = header.bell.load();
    const bool arrived = AllArrived();
    if (!arrived && !aborted()) {
      At(BarrierStep::kSleeps);
      FutexWait(header.bell, bell, kLookAround);
    }
    header.sleepers.fetch_sub(1);
    if (arrived) return absl::OkStatus();
    status = LookAround();
    if (!status.ok()) return status;
  }
}

absl::Status ShmBarrier::LookAround() {
  // A barrier at which all ranks arrived before the generation ended counts as passed.
  if (aborted()) return AllArrived() ? absl::OkStatus() : Cause();
  for (int rank = 0; rank < size(); ++rank) {
    // A rank may have arrived before its process ended, so its word is read again after its death
    // was seen.
    if (segment_->block(rank).arrived.load() < arrived_ && IsGone(rank) &&
        segment_->block(rank).arrived.load() < arrived_) {
      return Abort(LostError(rank));
    }
  }
  LookForStall();
  const Deadline deadline = deadline_();
  if (std::chrono::steady_clock::now() >= deadline.time) return Abort(TooLate(deadline));
  return absl::OkStatus();
}

void ShmBarrier::LookForStall() {
  const absl::Duration waited = absl::FromChrono(std::chrono::steady_clock::now() - waits_since_);
  if (waited - reported_ < stall_after_ || !stalled_) return;
  reported_ = waited;
  stalled_(waited, Missing());
}

bool ShmBarrier::IsGone(int rank) const {
  if (rank == rank_) return false;
  if (segment_->block(rank).left.load() != 0) return true;
  // The pipe hangs up when the rank's process ends, whatever the reason.
  pollfd life = {lives_[static_cast<size_t>(rank)].get(), 0, 0};
  return poll(&life, 1, 0) == 1 && (life.revents & (POLLHUP | POLLERR | POLLNVAL)) != 0;
}

// Returns the last call that a rank has completed, in words. Asked only about ranks that others
// wait for or that have ended, whose entry does not change any more.
std::string ShmBarrier::LastDone(int rank) const {
  const ShmRankBlock& block = segment_->block(rank);
  const uint64_t completed = block.completed.load();
  if (completed == 0) return "no call";
  const ShmLastCall& last = block.last_calls[(completed - 1) % 2];
  FlightRecord record;
  record.sequence = last.sequence;
  record.op = last.op;
  record.name.assign(last.name.data(), std::min<size_t>(last.name_bytes, last.name.size()));
  return NameOf(record);
}

absl::Status ShmBarrier::LostError(int rank) const {
  const ShmRankBlock& block = segment_->block(rank);
  proto::ErrorDetail detail;
  detail.set_error_class(proto::WORKER_LOST);
  std::string who = absl::StrCat("rank ", rank);
  if (!members_.empty()) {
    *detail.mutable_origin() = members_[static_cast<size_t>(rank)];
    absl::StrAppend(&who, " (", TaskName(detail.origin()), ")");
  }
  return WithDetail(
      absl::UnavailableError(absl::StrCat(
          who, block.left.load() != 0 ? " left the group" : " was lost: its process ended",
          "; last done there: ", LastDone(rank))),
      detail);
}

std::vector<std::string> ShmBarrier::Missing() const {
  std::vector<std::string> missing;
  for (int rank = 0; rank < size(); ++rank) {
    if (segment_->block(rank).arrived.load() >= arrived_) continue;
    missing.push_back(MissingRank(rank, LastDone(rank)));
  }
  return missing;
}

absl::Status ShmBarrier::TooLate(const Deadline& deadline) const {
  return LateError(deadline.sequence, deadline.description, deadline.timeout, Missing());
}

absl::Status ShmBarrier::Abort(const absl::Status& cause) {
  COHORT_CHECK(!cause.ok(), "an abort has a cause");
  uint32_t nobody = 0;
  ShmHeader& header = segment_->header();
  ShmRankBlock& block = segment_->block(rank_);
  // Only the first abort of this rank writes the cause, so that the text does not change later.
  if (!aborted() && !block.abort_begun.exchange(true)) {
    WriteText(AbortedBy(name_, cause), block.cause);
    // The cause is complete before aborted_by names this rank, so no rank reads half a cause.
    header.aborted_by.compare_exchange_strong(nobody, static_cast<uint32_t>(rank_) + 1);
    RingBell();
  }
  while (!aborted()) sched_yield();  // another thread of this rank is writing the cause
  return Cause();
}

absl::Status ShmBarrier::Cause() const {
  const uint32_t by = segment_->header().aborted_by.load();
  if (by == 0) return absl::OkStatus();
  // The rank number comes from shared memory, so it is limited to the ranks of the group.
  const absl::Status cause =
      ReadText(segment_->block(static_cast<int>(std::min(by, segment_->plan().ranks)) - 1).cause);
  return cause.ok() ? absl::InternalError("a rank aborted without a cause") : cause;
}

bool ShmBarrier::BeginCall() {
  // `busy` is stored before the abort is read (see aborted()).
  segment_->block(rank_).busy.store(1);
  if (!aborted()) return true;
  EndCall();
  return false;
}

void ShmBarrier::EndCall() { segment_->block(rank_).busy.store(0, std::memory_order_release); }

void ShmBarrier::Completed(const CollectiveCall& call, uint64_t sequence) {
  ShmRankBlock& block = segment_->block(rank_);
  const uint64_t completed = block.completed.load(std::memory_order_relaxed);
  // Completed calls alternate between two entries, so that the entry of the last one is not being
  // written.
  ShmLastCall& last = block.last_calls[completed % 2];
  last.sequence = sequence;
  last.op = call.op;
  last.name_bytes = static_cast<uint32_t>(std::min(call.name.size(), last.name.size()));
  std::memcpy(last.name.data(), call.name.data(), last.name_bytes);
  block.completed.store(completed + 1, std::memory_order_release);
}

bool ShmBarrier::WaitForQuiet(const absl::Status& cause) const {
  const int given_up = RankGivenUp(cause, members_);
  const Time end = std::chrono::steady_clock::now() + absl::ToChronoNanoseconds(quiet_wait_);
  for (int rank = 0; rank < size(); ++rank) {
    while (segment_->block(rank).busy.load() != 0 && !IsGone(rank)) {
      if (rank == given_up || std::chrono::steady_clock::now() >= end) return false;
      sched_yield();
    }
  }
  return true;
}

}  // namespace cohort
