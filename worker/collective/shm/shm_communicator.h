#pragma once

// The communicator of ranks that are processes, or threads, of one host. The ranks work in memory
// that all of them map (shm_segment.h), by the algorithm of shm_call.h, and wait for each other in
// this memory (shm_barrier.h).
//
// Waiting blocks a thread, so each rank has a thread that runs its calls one after the other. Calls
// run and complete in the order in which they were started. The waiting ranks notice a killed rank
// within about 50 ms.

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
  // A socket name that no other group of the machine has, made by NewShmSocket; the same on all
  // ranks.
  std::string socket;
  absl::Duration join_timeout = absl::Seconds(10);
  // How long a rank waits before it logs the ranks that it waits for; the log line is repeated at
  // this interval.
  absl::Duration stall_after = absl::Seconds(10);
  // How long a failed call waits, after an abort, for ranks that are still inside a call.
  absl::Duration quiet_wait = absl::Milliseconds(500);
  std::vector<proto::TaskRef> members;  // the task of each rank, for error messages; or empty
  // The address space to reserve for a rank's arena; pages are allocated on first touch.
  size_t arena_bytes = size_t{64} << 30;
  // Hooks with which tests stop or hold a rank. The hooks run on the communicator's thread:
  // at_joining before each message of the joining, at_barrier at each step of each barrier. May be
  // empty.
  std::function<void()> at_joining;
  std::function<void(BarrierStep)> at_barrier;
};

std::string NewShmSocket();

// The communicator of one rank in shared memory. Thread-safe.
class ShmCommunicator final : public Communicator {
 public:
  // Makes a communicator. `joined` runs once, on the communicator's thread, when all ranks share
  // memory or when joining has failed. The error of a failure is UNAVAILABLE, DEADLINE_EXCEEDED
  // that names the missing ranks, CANCELLED or RESOURCE_EXHAUSTED; all ranks have the same error,
  // and every call ends with it. Calls may be started before `joined` runs. Memory that was
  // allocated before `joined` runs is not shared; calls with such memory are slower but work as
  // well.
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
  ShmArena& JoinedArena();  // the arena of this rank; called only after the group has formed
  absl::Status Run(const CollectiveCall& call, uint64_t sequence);
  absl::Status Failed(const absl::Status& status, const CollectiveCall& call);
  ShmBarrier::Deadline EarliestDeadline();
  void LogStall(absl::Duration waited, const std::vector<std::string>& missing);

  const ShmOptions options_;
  UniqueFd stop_reading_, stop_writing_;  // a pipe; closing its writing end stops the joining
  // The flight recorder; thread-safe. Shared with readers of the records, which may outlive the
  // group.
  const std::shared_ptr<FlightRecorder> recorder_;
  // The writing end of the pipe that shows this rank's life (shm_rendezvous.h), used by the
  // communicator's thread. When this end closes, no rank waits for this rank any more.
  UniqueFd life_;

  Mutex mutex_;
  CondVar changed_;
  bool stopped_ ABSL_GUARDED_BY(mutex_) = false;
  uint64_t next_sequence_ ABSL_GUARDED_BY(mutex_) = 0;
  // The calls that are not done; the first call may be running.
  std::deque<Pending> pending_ ABSL_GUARDED_BY(mutex_);
  // The error of a group that did not form or was aborted before it formed.
  absl::Status failure_ ABSL_GUARDED_BY(mutex_);
  // The arena of this rank, set when the group has formed. Shared with buffers.
  std::shared_ptr<ShmArena> arena_ ABSL_GUARDED_BY(mutex_);
  std::unique_ptr<ShmBarrier> barrier_;  // set by the communicator's thread, before arena_

  std::thread thread_;  // declared last, because the thread uses all members above
};

}  // namespace cohort
