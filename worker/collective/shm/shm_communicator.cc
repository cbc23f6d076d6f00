#include "worker/collective/shm/shm_communicator.h"

#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "common/base/status.h"
#include "common/wire/frames/local_socket.h"
#include "worker/collective/shm/shm_call.h"
#include "worker/collective/shm/shm_rendezvous.h"

namespace cohort {

namespace {

// Returns the number of cores on which this process may run.
int CoreCount() {
  cpu_set_t cores;
  return sched_getaffinity(0, sizeof(cores), &cores) == 0 ? CPU_COUNT(&cores) : 1;
}

}  // namespace

std::string NewShmSocket() { return absl::StrCat("cohort-group:", NewSocketNumber()); }

ShmCommunicator::ShmCommunicator(ShmOptions options, Done joined)
    : options_(std::move(options)),
      recorder_(std::make_shared<FlightRecorder>(FlightRecorder::Owner{
          options_.name, options_.rank, options_.size, options_.members, "shared memory"})) {
  // Closing the writing end of this pipe ends a rendezvous that still waits for other ranks.
  int ends[2] = {-1, -1};
  COHORT_CHECK(pipe2(ends, O_CLOEXEC) == 0, "the process has descriptors for a pipe");
  stop_reading_ = UniqueFd(ends[0]);
  stop_writing_ = UniqueFd(ends[1]);
  thread_ = std::thread([this, joined = std::move(joined)]() mutable { Serve(std::move(joined)); });
  pthread_setname_np(thread_.native_handle(), "shm-group");
}

ShmCommunicator::~ShmCommunicator() {
  {
    MutexLock lock(mutex_);
    COHORT_CHECK(pending_.empty(), "a communicator ends after its calls");
    stopped_ = true;
    changed_.NotifyAll();
  }
  stop_writing_ = UniqueFd();
  thread_.join();
}

absl::StatusOr<std::shared_ptr<Buffer>> ShmCommunicator::Allocate(size_t bytes) {
  std::shared_ptr<ShmArena> arena;
  {
    MutexLock lock(mutex_);
    arena = arena_;
  }
  // Before joining there is no arena; ordinary memory works as well.
  return arena != nullptr ? arena->Allocate(bytes) : Buffer::Allocate(bytes);
}

void ShmCommunicator::Start(CollectiveCall call, Done done) {
  // An infinite timeout would overflow the clock's time, so it is limited to a year.
  const auto timeout = absl::ToChronoNanoseconds(std::min(call.timeout, absl::Hours(24 * 365)));
  const Time deadline = std::chrono::steady_clock::now() + timeout;
  MutexLock lock(mutex_);
  pending_.push_back({std::move(call), std::move(done), next_sequence_++, deadline});
  RecordStart(pending_.back());
  changed_.NotifyOne();
}

void ShmCommunicator::RecordStart(const Pending& pending) {
  recorder_->Started({pending.sequence, &pending.call, CollectiveAlgorithm::kAuto, {}},
                     absl::Now());
}

void ShmCommunicator::Abort(absl::Status root_cause) {
  {
    MutexLock lock(mutex_);
    if (arena_ == nullptr) {
      // If the ranks come to share memory in spite of this abort, Join() aborts the group with
      // failure_.
      if (failure_.ok()) failure_ = std::move(root_cause);
      return;
    }
  }
  // The barrier, which is set before arena_, is called outside the lock.
  barrier_->Abort(root_cause).IgnoreError();
}

void ShmCommunicator::Serve(Done joined) {
  joined(Join());
  joined = nullptr;
  while (WaitForCall()) {
    Pending* first = nullptr;
    {
      MutexLock lock(mutex_);
      first = &pending_.front();  // a deque does not move its elements when calls are added
    }
    const absl::Status status = Run(first->call, first->sequence);
    recorder_->Ended(first->sequence, status, absl::Now());
    Done done = std::move(first->done);
    {
      MutexLock lock(mutex_);
      // The call is removed before `done` runs, because the communicator may be destroyed after
      // `done`.
      pending_.pop_front();
    }
    done(status);
  }
  // The barrier's destructor tells the other ranks that this rank has left. Only then is the pipe
  // that shows this rank's life closed.
  barrier_.reset();
  life_ = UniqueFd();
}

absl::Status ShmCommunicator::Join() {
  ShmRendezvous rendezvous;
  rendezvous.rank = options_.rank;
  rendezvous.size = options_.size;
  rendezvous.generation = options_.name.generation;
  rendezvous.socket = options_.socket;
  rendezvous.timeout = options_.join_timeout;
  rendezvous.plan = MakeShmPlan(options_.size, CoreCount(), options_.arena_bytes);
  rendezvous.before_message = options_.at_joining;
  auto share = MeetOnHost(rendezvous, stop_reading_);
  absl::Status aborted;
  {
    MutexLock lock(mutex_);
    if (!share.ok()) {
      if (failure_.ok()) {
        failure_ = Annotate(share.status(), "sharing memory between the ranks of a host");
      }
      return failure_;
    }
    aborted = failure_;
    life_ = std::move(share->life);
    ShmBarrier::Options barrier;
    barrier.name = options_.name;
    barrier.segment = share->segment;
    barrier.rank = options_.rank;
    barrier.lives = std::move(share->lives);
    barrier.members = options_.members;
    barrier.deadline = [this] { return EarliestDeadline(); };
    barrier.stall_after = options_.stall_after;
    barrier.quiet_wait = options_.quiet_wait;
    barrier.stalled = [this](absl::Duration waited, const std::vector<std::string>& missing) {
      LogStall(waited, missing);
    };
    barrier.at_step = options_.at_barrier;
    barrier_ = std::make_unique<ShmBarrier>(std::move(barrier));
    arena_ = std::make_shared<ShmArena>(share->segment, options_.rank);
  }
  // An abort that came during joining ends the group on all ranks.
  return aborted.ok() ? aborted : barrier_->Abort(aborted);
}

bool ShmCommunicator::WaitForCall() {
  MutexLock lock(mutex_);
  while (pending_.empty() && !stopped_) changed_.Wait(mutex_);
  return !pending_.empty();
}

ShmArena& ShmCommunicator::JoinedArena() {
  MutexLock lock(mutex_);
  return *arena_;
}

absl::Status ShmCommunicator::Run(const CollectiveCall& call, uint64_t sequence) {
  if (barrier_ == nullptr) {
    MutexLock lock(mutex_);
    return AbortedBy(options_.name, failure_);
  }
  const absl::Status checked = CheckCall(call, options_.rank, options_.size);
  // An invalid call ends the generation on all ranks.
  if (!checked.ok()) return Failed(checked, call);
  if (!barrier_->BeginCall()) return barrier_->Cause();
  const absl::Status status = ShmCallRun(*barrier_, JoinedArena(), call, sequence).Run();
  barrier_->EndCall();
  if (!status.ok()) return Failed(status, call);
  barrier_->Completed(call, sequence);
  return status;
}

// Ends the generation with `status`, and waits until no other rank writes the call's output any
// more. Returns the cause for which the generation has ended.
absl::Status ShmCommunicator::Failed(const absl::Status& status, const CollectiveCall& call) {
  const absl::Status cause = barrier_->Abort(status);
  // If a rank may still write to the output, private pages replace the shared ones there.
  if (!barrier_->WaitForQuiet(cause) && JoinedArena().OffsetOf(call.output) &&
      !call.output.empty()) {
    barrier_->segment().Detach(call.output);
  }
  return cause;
}

ShmBarrier::Deadline ShmCommunicator::EarliestDeadline() {
  MutexLock lock(mutex_);
  const auto first =
      std::min_element(pending_.begin(), pending_.end(),
                       [](const Pending& a, const Pending& b) { return a.deadline < b.deadline; });
  if (first == pending_.end()) return {};
  return {first->deadline, first->sequence, DescribeCall(first->call), first->call.timeout};
}

void ShmCommunicator::LogStall(absl::Duration waited, const std::vector<std::string>& missing) {
  StalledCall stalled{options_.name, options_.rank, 0, "", waited, missing};
  {
    MutexLock lock(mutex_);
    const Pending& first = pending_.front();  // the running call is the oldest
    stalled.sequence = first.sequence;
    stalled.description = DescribeCall(first.call);
  }
  LogStalledCall(stalled);
}

}  // namespace cohort
