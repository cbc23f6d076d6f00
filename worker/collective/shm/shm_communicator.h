#pragma once

// The communicator of ranks that are processes, or threads, of one host: they work in memory that
// all of them map (shm_segment.h), the way shm_call.h says, and wait for each other in it
// (shm_barrier.h).
//
// Waiting blocks, so each rank has a thread of its own for its calls, one after the other. The
// calls run in the order in which they were started, and so complete. A killed rank is noticed
// within about 50 ms by those who wait for it.

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
  // What no other group of the machine has; the same on all ranks: NewShmSocket.
  std::string socket;
  absl::Duration join_timeout = absl::Seconds(10);
  // Who waits so long for other ranks logs for whom, and again after as long.
  absl::Duration stall_after = absl::Seconds(10);
  // After an abort: how long a call waits for ranks that are still in one.
  absl::Duration quiet_wait = absl::Milliseconds(500);
  std::vector<proto::TaskRef> members;  // by rank, for errors; or empty
  // Of addresses; memory is taken as it is used.
  size_t arena_bytes = size_t{64} << 30;
  // Where tests end the rank, or hold it, on the communicator's thread: before each message with
  // which it joins, and at each step of each barrier. May be empty.
  std::function<void()> at_joining;
  std::function<void(BarrierStep)> at_barrier;
};

std::string NewShmSocket();

// How ranks of this host would do a call, and why, in some lines.
std::string ExplainShm(const CollectiveCall& call, int size);

// Thread-safe.
class ShmCommunicator final : public Communicator {
 public:
  // `joined` runs once, on the communicator's thread, when all ranks share memory or when they do
  // not; then the error is of UNAVAILABLE, DEADLINE_EXCEEDED naming who is missing, CANCELLED or
  // RESOURCE_EXHAUSTED, every call ends with it, and it is so on all ranks. Calls may be started
  // before. Memory that was allocated before is not shared: slower, and as good.
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
  // False when the communicator is to end.
  bool WaitForCall();
  ShmArena& JoinedArena();  // of a group that has formed
  absl::Status Run(const CollectiveCall& call, uint64_t sequence);
  absl::Status Failed(const absl::Status& status, const CollectiveCall& call);
  ShmBarrier::Deadline EarliestDeadline();
  void LogStall(absl::Duration waited, const std::vector<std::string>& missing);

  const ShmOptions options_;
  UniqueFd stop_reading_, stop_writing_;  // a pipe that ends the wait for the other ranks
  // Synchronises itself. Shared with who looks at it, also when the group is over.
  const std::shared_ptr<FlightRecorder> recorder_;
  UniqueFd life_;  // of the thread; after its end nobody waits for this rank

  Mutex mutex_;
  CondVar changed_;
  bool stopped_ ABSL_GUARDED_BY(mutex_) = false;
  uint64_t next_sequence_ ABSL_GUARDED_BY(mutex_) = 0;
  std::deque<Pending> pending_ ABSL_GUARDED_BY(mutex_);  // the first may be under way
  // Of a group that did not form, or was aborted before it did.
  absl::Status failure_ ABSL_GUARDED_BY(mutex_);
  // Set when the group has formed. Shared with buffers.
  std::shared_ptr<ShmArena> arena_ ABSL_GUARDED_BY(mutex_);
  std::unique_ptr<ShmBarrier> barrier_;  // set by the thread, before arena_

  std::thread thread_;  // last: uses all of the above
};

}  // namespace cohort
