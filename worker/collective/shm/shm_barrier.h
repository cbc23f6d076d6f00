#pragma once

// The barrier at which the ranks of one host wait for each other, in memory that they share. A wait
// also ends with an error: the cause of an abort, the death of a rank, or a deadline.
//
// Each rank counts the barriers that it has reached in a word of its own. A rank has passed barrier
// number k when the words of all ranks are at least k. A waiting rank polls the words for a short
// while, and then sleeps on the bell, a word that the last arriving rank changes. A sleeping rank
// wakes every 50 ms to check which ranks are still alive. Each rank has a pipe that shows its life:
// the rank holds the writing end, every other rank holds a reading end, so the others see when its
// process ends, whatever the reason.
//
// A rank that aborts writes the cause into its own block. Then it writes its rank number into a
// word of the header, unless another rank has done so before. So all ranks end with the same cause.
// Internal to worker/collective.

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

// The points in one rank's passage through a barrier, for tests.
enum class BarrierStep {
  kReaches,  // the rank is about to announce its arrival in its word
  kArrived,  // the rank has announced its arrival, but has not woken any other rank
  // The rank has seen that other ranks are missing, and is about to sleep, perhaps not for the
  // first time.
  kSleeps,
  kPassed,  // the rank has seen that all ranks have arrived
};

// One rank's end of the barrier. Wait() lives on the thread that runs the rank's calls; all else is
// thread-safe.
class ShmBarrier {
 public:
  using Time = std::chrono::steady_clock::time_point;
  // The deadline of a call that has started, with the words for its error.
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
    std::vector<proto::TaskRef> members;  // the task of each rank, for error messages; may be empty
    // Returns the earliest deadline of the calls that this rank has started.
    absl::AnyInvocable<Deadline()> deadline;
    // The time after which a waiting rank calls `stalled` with the ranks that have not arrived, on
    // the thread of Wait(); called again at this interval.
    absl::Duration stall_after = absl::InfiniteDuration();
    absl::AnyInvocable<void(absl::Duration waited, const std::vector<std::string>& missing)>
        stalled;
    absl::Duration quiet_wait = absl::ZeroDuration();  // longest time that WaitForQuiet() waits
    // A hook for tests, which runs at each BarrierStep on the thread of Wait(). May be empty.
    std::function<void(BarrierStep)> at_step;
  };

  explicit ShmBarrier(Options options);
  // Leaves: other ranks that wait for this rank get an error.
  ~ShmBarrier();

  // Waits until all ranks have arrived. Errors: the cause for which the generation has ended. If
  // all ranks have arrived, the result is OK even if the generation has ended since.
  absl::Status Wait();

  // Ends the generation with `cause`, unless it has ended before. Returns the cause for which it
  // has ended.
  absl::Status Abort(const absl::Status& cause);
  // Returns the cause for which the generation has ended, or OK if it has not.
  absl::Status Cause() const;
  // Returns true if the generation was aborted. Of an abort and a BeginCall() on another rank, at
  // least one sees the other, because all these accesses are sequentially consistent: BeginCall()
  // stores `busy` before it reads the abort; WaitForQuiet() reads `busy` after the abort was
  // stored.
  bool aborted() const { return segment_->header().aborted_by.load() != 0; }

  // Marks this rank as busy: it may write memory of other ranks until EndCall(). Returns false if
  // the generation has ended; the rank is then not busy and must not begin a call.
  bool BeginCall();
  void EndCall();
  void Completed(const CollectiveCall& call, uint64_t sequence);
  // Waits, after an abort with `cause`, until no living rank is busy. Returns false if a rank is
  // still busy after quiet_wait, or if a busy rank is the one that `cause` names as given up, which
  // is not waited for. Such a rank may still write later.
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
  Time waits_since_;         // time at which this rank began to sleep at the present barrier
  absl::Duration reported_;  // time that this rank had waited when it last reported a stall
};

}  // namespace cohort
