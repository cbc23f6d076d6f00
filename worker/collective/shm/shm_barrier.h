#pragma once

// The place where the ranks of one host wait for each other, and what ends a wait: a cause that one
// of them set, the death of a rank, or a deadline.
//
// Each rank counts the barriers that it has reached in a word of its own; a barrier is passed when
// all words have its number. A waiting rank looks at the words for a short while, and then sleeps
// on the bell that the last to arrive rings. It wakes every 50 ms to see which ranks are still
// alive. A rank's life is a pipe: the rank holds the end for writing, all others one for reading,
// so its end is seen however it came.
//
// An abort is a cause in the block of the rank that found it, and that rank's number in one word of
// the header, which the first one sets. So all ranks end with the same cause. Internal to
// worker/collective.

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

// A rank's progress at a barrier.
enum class BarrierStep {
  kReaches,  // its word does not say so yet
  kArrived,  // its word does, and it has woken nobody yet
  kSleeps,   // it has seen that some are missing, and is about to sleep; perhaps again
  kPassed,   // it has seen that all are here
};

// Wait lives on the thread of the group's calls; the rest is thread-safe.
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
    std::shared_ptr<const ShmSegment> segment;  // shared with buffers
    int rank = 0;
    std::vector<UniqueFd> lives;          // one per rank; empty for this rank
    std::vector<proto::TaskRef> members;  // one per rank, for errors; or empty
    // Returns the earliest deadline of the calls that have started.
    absl::AnyInvocable<Deadline()> deadline;
    // Runs where Wait does, when it has waited so long, and again after as long, with the ranks
    // that are not here.
    absl::Duration stall_after = absl::InfiniteDuration();
    absl::AnyInvocable<void(absl::Duration waited, const std::vector<std::string>& missing)>
        stalled;
    absl::Duration quiet_wait = absl::ZeroDuration();  // WaitForQuiet
    // Runs where Wait does, at each step. May be empty.
    std::function<void(BarrierStep)> at_step;
  };

  explicit ShmBarrier(Options options);
  // Says that this rank has left.
  ~ShmBarrier();

  // Waits until all ranks are here. Errors: the generation's cause; but a barrier that all ranks
  // have reached is passed even if the generation has ended since.
  absl::Status Wait();

  // Ends the generation with `cause`, unless it has ended. Returns the cause that counts.
  absl::Status Abort(const absl::Status& cause);
  // Returns OK until the generation ends.
  absl::Status Cause() const;
  // Returns whether the generation was aborted. Sequentially consistent: of BeginCall, which stores
  // `busy` before it looks here, and WaitForQuiet, which looks at `busy` after the abort was
  // stored, one sees the other.
  bool aborted() const { return segment_->header().aborted_by.load() != 0; }

  // Marks this rank as busy; a busy rank may write the others' memory. Returns false if the
  // generation has ended: this rank must not begin.
  bool BeginCall();
  void EndCall();
  void Completed(const CollectiveCall& call, uint64_t sequence);
  // Waits, after an abort with `cause`, until no living rank is busy. Returns false if one still is
  // after quiet_wait, or if the cause says that one is given up: that one is not waited for, and
  // may go on later.
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
  const std::shared_ptr<const ShmSegment> segment_;  // shared with buffers
  const int rank_;
  const std::vector<UniqueFd> lives_;
  const std::vector<proto::TaskRef> members_;
  absl::AnyInvocable<Deadline()> deadline_;
  const absl::Duration stall_after_;
  absl::AnyInvocable<void(absl::Duration, const std::vector<std::string>&)> stalled_;
  const absl::Duration quiet_wait_;
  const std::function<void(BarrierStep)> at_step_;
  uint64_t arrived_ = 0;
  Time waits_since_;         // set while it sleeps
  absl::Duration reported_;  // the wait that was last reported
};

}  // namespace cohort
