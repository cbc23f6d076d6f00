#pragma once

// The barrier at which the ranks of one host wait for each other. A wait also ends with an error: a
// cause that a rank has set, the death of a rank, or a deadline.
//
// Each rank counts the barriers that it has reached in a word of its own. A barrier is passed when
// the words of all ranks have its number. A waiting rank polls the words for a short while, and
// then sleeps on the bell, a word that the last arriving rank changes. A sleeping rank wakes every
// 50 ms to check which ranks are still alive. The life of a rank is a pipe: the rank holds the end
// for writing, every other rank holds an end for reading, so the other ranks see the rank's end,
// whatever the reason.
//
// A rank that aborts writes the cause into its own block. Then it puts its rank number into one
// word of the header, unless another rank has set the word before. So all ranks end with the same
// cause. Internal to worker/collective.

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "common/base/unique_fd.h"
#include "proto/error.pb.h"
#include "worker/collective/collective_errors.h"
#include "worker/collective/shm/shm_segment.h"

namespace cohort {

// The steps of a rank at a barrier.
enum class BarrierStep {
  kReaches,  // the rank is about to announce its arrival (in its word)
  kArrived,  // the rank has announced its arrival, but has woken no other rank yet
  kSleeps,   // the rank has seen that ranks are missing, and is about to sleep, perhaps again
  kPassed,   // the rank has seen that all ranks have arrived at the barrier
};

// One rank's end of the barrier. Wait lives on the thread of the group's calls; everything else is
// thread-safe.
class ShmBarrier {
 public:
  using Time = std::chrono::steady_clock::time_point;
  // The deadline of a call that has started.
  struct Deadline {
    Time time = Time::max();
    uint64_t sequence = 0;
    std::string description = "";
    absl::Duration timeout = absl::InfiniteDuration();
  };
  struct Options {
    GroupName name;
    std::shared_ptr<const ShmSegment> segment;  // the memory of all ranks; shared with buffers
    int rank = 0;
    // The reading end of each rank's pipe; empty for this rank.
    std::vector<UniqueFd> lives;
    std::vector<proto::TaskRef> members;  // the task of each rank, for error messages; or empty
    // Returns the earliest deadline of the calls that have started.
    absl::AnyInvocable<Deadline()> deadline;
    // The time that Wait waits before it calls `stalled` with the missing ranks, on the thread of
    // Wait. The call is repeated at this interval.
    absl::Duration stall_after = absl::InfiniteDuration();
    absl::AnyInvocable<void(absl::Duration waited, const std::vector<std::string>& missing)>
        stalled;
    absl::Duration quiet_wait = absl::ZeroDuration();  // how long WaitForQuiet waits for busy ranks
    // A hook for tests, which runs on the thread of Wait at each step of a barrier. May be empty.
    std::function<void(BarrierStep)> at_step;
  };

  explicit ShmBarrier(Options options);
  // Tells the other ranks that this rank has left.
  ~ShmBarrier();

  // Waits until all ranks have arrived. Errors: the cause for which the generation ended. A barrier
  // that all ranks have reached is passed even if the generation has ended since.
  absl::Status Wait();

  // Ends the generation with `cause`, unless the generation has ended before. Returns the cause for
  // which the generation ended.
  absl::Status Abort(const absl::Status& cause);
  // Returns the cause for which the generation ended, or OK if it has not ended.
  absl::Status Cause() const;
  // Returns whether the generation was aborted. The load is sequentially consistent. BeginCall
  // stores `busy` before it loads the abort; WaitForQuiet loads `busy` after the abort was stored.
  // So at least one of the two sees the other's store.
  bool aborted() const { return segment_->header().aborted_by.load() != 0; }

  // Marks this rank as busy: a busy rank may write the memory of other ranks. Returns false if the
  // generation has ended; then this rank must not begin a call.
  bool BeginCall();
  void EndCall();
  void Completed(const CollectiveCall& call, uint64_t sequence);
  // Waits, after an abort with `cause`, until no living rank is busy. Returns false if a rank is
  // still busy after quiet_wait, or if a busy rank is the rank that the cause names as given up:
  // such a rank is not waited for and may go on writing later.
  bool WaitForQuiet(const absl::Status& cause) const;

  const ShmSegment& segment() const { return *segment_; }
  int rank() const { return rank_; }
  int size() const { return segment_->ranks(); }

 private:
  void At(BarrierStep step);
  absl::Status WaitForAll();
  bool AllArrived() const;
  void RingBell();
  bool Look();
  absl::Status Sleep();
  absl::Status LookAround();
  void LookForStall();
  std::vector<std::string> Missing() const;
  bool IsGone(int rank) const;
  std::string LastDone(int rank) const;
  absl::Status LostError(int rank) const;
  absl::Status TooLate(const Deadline& deadline) const;

  const GroupName name_;
  const std::shared_ptr<const ShmSegment> segment_;  // the memory of all ranks; shared with buffers
  const int rank_;
  const std::vector<UniqueFd> lives_;
  const std::vector<proto::TaskRef> members_;
  absl::AnyInvocable<Deadline()> deadline_;
  const absl::Duration stall_after_;
  absl::AnyInvocable<void(absl::Duration, const std::vector<std::string>&)> stalled_;
  const absl::Duration quiet_wait_;
  const std::function<void(BarrierStep)> at_step_;
  uint64_t arrived_ = 0;
  Time waits_since_;         // when this rank began to sleep at the barrier
  absl::Duration reported_;  // how long the rank had waited at the last report of a stall
};

}  // namespace cohort
