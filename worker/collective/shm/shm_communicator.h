#pragma once

// The communicator of ranks that are processes, or threads, of one host: they work in memory that
// all of them map (shm_segment.h), as shm_call.h describes, and wait for each other in it
// (shm_barrier.h).
//
// Waiting blocks, so each rank has a thread of its own for its calls, one after the other. Calls
// run in the order in which they were started, and complete in it. The waiting ranks notice a
// killed one within about 50 ms.

#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "common/base/mutex.h"
#include "common/base/unique_fd.h"
#include "proto/error.pb.h"
#include "worker/collective/collective_errors.h"
#include "worker/collective/communicator.h"
#include "worker/collective/flight_recorder.h"
#include "worker/collective/shm/shm_arena.h"
#include "worker/collective/shm/shm_barrier.h"

namespace cohort {

struct ShmOptions {
  int rank = 0;
  int size = 0;
  GroupName name;
  // The name that no other group of the machine has; the same on all ranks: NewShmSocket.
  std::string socket;
  absl::Duration join_timeout = absl::Seconds(10);
  // How long a rank waits before it logs whom it is waiting for; repeated at this interval.
  absl::Duration stall_after = absl::Seconds(10);
  // How long a call waits, after an abort, for ranks that are still in one.
  absl::Duration quiet_wait = absl::Milliseconds(500);
  std::vector<proto::TaskRef> members;  // one per rank, for errors; or empty
  // Address space to reserve; pages are allocated on first touch.
  size_t arena_bytes = size_t{64} << 30;
  // Hooks with which tests end the rank, or hold it, on the communicator's thread: before each
  // message with which it joins, and at each step of each barrier. May be empty.
  std::function<void()> at_joining;
  std::function<void(BarrierStep)> at_barrier;
};

std::string NewShmSocket();

// Returns, in some lines, how ranks of this host would do a call, and why.
std::string ExplainShm(const CollectiveCall& call, int size);

// Thread-safe.
class ShmCommunicator final : public Communicator {
 public:
  // Makes a communicator. `joined` runs once, on the communicator's thread, when all ranks share
  // memory or when they do not; then the error is UNAVAILABLE, DEADLINE_EXCEEDED naming the missing
  // ranks, CANCELLED or RESOURCE_EXHAUSTED, every call ends with it, and all ranks have the same.
  // Calls may be started before. Memory that was allocated before is not shared: slower, and as
  // good.
  ShmCommunicator(ShmOptions options, Done joined);
  ~ShmCommunicator() override;

  int rank() const override { return options_.rank; }
  int size() const override { return options_.size; }
  absl::StatusOr<std::shared_ptr<Buffer>> Allocate(size_t bytes) override;
  void Start(CollectiveCall call, Done done) override;
  void Abort(absl::Status root_cause) override;

  std::shared_ptr<const FlightRecorder> recorder() const { return recorder_; }

 private:
  using Time = std::chrono::steady_clock::time_point;
  struct Pending {
    CollectiveCall call;
    Done done;
    uint64_t sequence = 0;
    Time deadline;
  };

  void RecordStart(const Pending& pending) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Serve(Done joined);
  absl::Status Join();
  // Returns false if the communicator is to end.
  bool WaitForCall();
  ShmArena& JoinedArena();  // called when the group has formed
  absl::Status Run(const CollectiveCall& call, uint64_t sequence);
  absl::Status Failed(const absl::Status& status, const CollectiveCall& call);
  ShmBarrier::Deadline EarliestDeadline();
  void LogStall(absl::Duration waited, const std::vector<std::string>& missing);

  const ShmOptions options_;
  UniqueFd stop_reading_, stop_writing_;  // a pipe that ends the wait for the other ranks
  // Synchronises itself. Shared with readers, also when the group is over.
  const std::shared_ptr<FlightRecorder> recorder_;
  UniqueFd life_;  // the thread's; after its end nobody waits for this rank

  Mutex mutex_;
  CondVar changed_;
  bool stopped_ ABSL_GUARDED_BY(mutex_) = false;
  uint64_t next_sequence_ ABSL_GUARDED_BY(mutex_) = 0;
  std::deque<Pending> pending_ ABSL_GUARDED_BY(mutex_);  // the first may be under way
  // The error of a group that did not form, or was aborted before it did.
  absl::Status failure_ ABSL_GUARDED_BY(mutex_);
  // Set when the group has formed. Shared with buffers.
  std::shared_ptr<ShmArena> arena_ ABSL_GUARDED_BY(mutex_);
  std::unique_ptr<ShmBarrier> barrier_;  // set by the thread, before arena_

  std::thread thread_;  // last: uses all of the above
};

}  // namespace cohort
