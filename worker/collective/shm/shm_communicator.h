#pragma once

// The communicator of ranks that are processes, or threads, of one host. The ranks work in memory
// that all of them map (shm_segment.h), by the algorithms of shm_call.h, and wait for each other in
// this memory (shm_barrier.h).
//
// Waiting blocks a thread, so each rank has a thread that runs its calls one after another. Calls
// run and complete in the order in which they were started. Ranks that wait notice within about 50
// ms that a rank was killed.

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
  // The name of a socket, unique on the machine, made by NewShmSocket(); the same on all ranks.
  std::string socket;
  absl::Duration join_timeout = absl::Seconds(10);
  // The time after which a waiting rank logs the ranks that have not arrived; logged again at this
  // interval.
  absl::Duration stall_after = absl::Seconds(10);
  // After an abort: how long a failed call waits for ranks that are still inside a call.
  absl::Duration quiet_wait = absl::Milliseconds(500);
  std::vector<proto::TaskRef> members;  // the task of each rank, for error messages; may be empty
  // The address space of a rank's arena in bytes; pages are allocated on first touch.
  size_t arena_bytes = size_t{64} << 30;
  // Hooks by which tests stop or hold a rank; may be empty. Both run on the communicator's thread:
  // at_joining before each message of the rendezvous, at_barrier at each BarrierStep.
  std::function<void()> at_joining;
  std::function<void(BarrierStep)> at_barrier;
};

std::string NewShmSocket();

// One rank's end of a group in shared memory. Thread-safe.
class ShmCommunicator final : public Communicator {
 public:
  // Makes a communicator. `joined` runs once, on the communicator's thread, when all ranks share
  // memory, or with the reason why they do not: UNAVAILABLE, DEADLINE_EXCEEDED naming the missing
  // ranks, CANCELLED or RESOURCE_EXHAUSTED. Then every call ends with this error. Calls may be
  // started before `joined` runs. Memory that was allocated before then is not shared; calls with
  // such memory are slower, but work.
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
  // Waits until there is a call to run. Returns false if the communicator is being destroyed and no
  // call is left.
  bool WaitForCall();
  ShmArena& JoinedArena();  // the arena of this rank; called only after joining
  absl::Status Run(const CollectiveCall& call, uint64_t sequence);
  absl::Status Failed(const absl::Status& status, const CollectiveCall& call);
  ShmBarrier::Deadline EarliestDeadline();
  void LogStall(absl::Duration waited, const std::vector<std::string>& missing);

  const ShmOptions options_;
  UniqueFd stop_reading_, stop_writing_;  // a pipe; closing its writing end stops the joining
  // The flight record; thread-safe. Shared with its readers, which may outlive the group.
  const std::shared_ptr<FlightRecorder> recorder_;
  // The writing end of the pipe that shows this rank's life (shm_rendezvous.h). The communicator's
  // thread closes it last: other ranks then wait for this rank no more.
  UniqueFd life_;

  Mutex mutex_;
  CondVar changed_;
  bool stopped_ ABSL_GUARDED_BY(mutex_) = false;
  uint64_t next_sequence_ ABSL_GUARDED_BY(mutex_) = 0;
  // The calls that are not done; the first one may be running.
  std::deque<Pending> pending_ ABSL_GUARDED_BY(mutex_);
  // The error with which joining failed, or the cause of an abort before joining has ended.
  absl::Status failure_ ABSL_GUARDED_BY(mutex_);
  // The arena of this rank; null before joining has succeeded. Shared with buffers.
  std::shared_ptr<ShmArena> arena_ ABSL_GUARDED_BY(mutex_);
  std::unique_ptr<ShmBarrier> barrier_;  // set by the communicator's thread, before arena_

  std::thread thread_;  // declared last, because the thread uses all members above
};

}  // namespace cohort
