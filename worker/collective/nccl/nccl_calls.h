#pragma once

// The calls of one rank, from Start until they are done, and what wakes the thread that makes them:
//
//   new --taken--> asked --Answered--> agreed --its pieces are through--> taken out
//                     \--Answered--> refused: the group has ended
//
// Whoever is asked answers always, so that a call which is asked is never taken out.

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

// Thread-safe; what it hands out belongs to the communicator's thread until it is taken out.
class NcclCalls {
 public:
  explicit NcclCalls(uint64_t first_sequence) : next_(first_sequence) {}

  // Adds a call; any thread may do so. `added` runs with its number before the thread can see it.
  template <typename Added>
  void Add(NcclCall call, Added added) {
    MutexLock lock(mutex_);
    call.sequence = next_++;
    added(call);
    calls_.emplace(call.sequence, State{std::move(call), Phase::kNew});
    NewsLocked();
  }
  void Answered(uint64_t sequence, const absl::Status& status);
  void End(const absl::Status& cause);  // the first counts
  void PieceThrough();
  void Stop();  // no more calls are added

  // Waits, on the communicator's thread, until something has happened since the last time.
  void WaitForNews(absl::Duration timeout);
  // Waits for the end alone.
  void WaitForEnd(absl::Duration timeout);
  bool stopped() const;
  absl::Status end() const;
  uint64_t pieces_through() const;
  // Returns the next new call, which counts as asked from now on, or null.
  const NcclCall* TakeNew();
  const NcclCall* Agreed(uint64_t sequence) const;  // null when it is not agreed, or not there
  // Returns the agreed calls, from the oldest on.
  std::vector<const NcclCall*> AllAgreed() const;
  // Returns the calls that nobody else will answer: all but the asked ones.
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
  uint64_t next_ ABSL_GUARDED_BY(mutex_);
  uint64_t next_new_ ABSL_GUARDED_BY(mutex_) = 0;  // all before it have been taken
  uint64_t pieces_through_ ABSL_GUARDED_BY(mutex_) = 0;
  absl::Status end_ ABSL_GUARDED_BY(mutex_);
  std::map<uint64_t, State> calls_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace cohort
