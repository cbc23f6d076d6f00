#pragma once

// The calls of one rank, from Start until they are done, and the events that wake the
// communicator's thread. The states of a call:
//
//   new --TakeNew--> asked --Answered--> agreed --all its pieces are finished--> taken out
//                       \--Answered--> refused: the group has ended
//
// In the state asked, the thread has asked the control group (nccl_communicator.h) whether all
// ranks have started the call. The control group always answers, so such a call gets an answer
// before it is taken out.

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "common/base/mutex.h"
#include "worker/collective/communicator.h"

namespace cohort {

struct NcclCall {
  uint64_t sequence = 0;
  CollectiveCall call;
  Communicator::Done done;
  absl::Time started;
};

// The calls of one communicator, by state. Thread-safe; a call that is handed out belongs to the
// communicator's thread until the call is taken out.
class NcclCalls {
 public:
  explicit NcclCalls(uint64_t first_sequence) : next_(first_sequence) {}

  // Adds a call, on any thread. `added` runs with the call, which has its sequence number by then,
  // before the communicator's thread can see it.
  template <typename Added>
  void Add(NcclCall call, Added added) {
    MutexLock lock(mutex_);
    call.sequence = next_++;
    added(call);
    calls_.emplace(call.sequence, State{std::move(call), Phase::kNew});
    NewsLocked();
  }
  void Answered(uint64_t sequence, const absl::Status& status);
  void End(const absl::Status& cause);  // ends the group; only the first cause counts
  void PieceThrough();
  void Stop();  // ends the thread; no call may be added afterwards

  // Waits, on the communicator's thread, until `timeout` has passed or something has happened since
  // the last wait: a call was added or answered, the GPU has finished a piece of a call, or End()
  // or Stop() was called.
  void WaitForNews(absl::Duration timeout);
  // Waits until the group has ended, Stop() was called, or `timeout` has passed.
  void WaitForEnd(absl::Duration timeout);
  // Gives the control group's answer to a call that joins the ranks.
  void JoinAnswered(const absl::Status& status);
  // Waits for that answer and takes it; nothing if Stop() was called first.
  std::optional<absl::Status> WaitForJoinAnswer();
  bool stopped() const;
  absl::Status end() const;
  uint64_t pieces_through() const;
  // Returns the oldest call in the state new, and puts it into the state asked; the caller must ask
  // the control group about it. Returns null if there is no new call.
  const NcclCall* TakeNew();
  // Returns the call if it is in the state agreed, else null.
  const NcclCall* Agreed(uint64_t sequence) const;
  // Returns the calls in the state agreed, the oldest first.
  std::vector<const NcclCall*> AllAgreed() const;
  // Returns the calls that this rank may end now: those in any state but asked.
  std::vector<uint64_t> Endable() const;
  Communicator::Done TakeOut(uint64_t sequence);
  bool empty() const;

 private:
  enum class Phase : uint8_t { kNew, kAsked, kAgreed, kRefused };
  struct State {
    NcclCall call;
    Phase phase = Phase::kNew;
  };
  void NewsLocked() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  mutable Mutex mutex_;
  CondVar changed_;
  bool news_ ABSL_GUARDED_BY(mutex_) = false;
  bool stopped_ ABSL_GUARDED_BY(mutex_) = false;
  std::optional<absl::Status> join_answer_ ABSL_GUARDED_BY(mutex_);
  uint64_t next_ ABSL_GUARDED_BY(mutex_);
  // TakeNew() has returned all calls with lower sequence numbers.
  uint64_t next_new_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t pieces_through_ ABSL_GUARDED_BY(mutex_) = 0;
  absl::Status end_ ABSL_GUARDED_BY(mutex_);
  std::map<uint64_t, State> calls_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace cohort
