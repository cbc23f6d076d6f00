#pragma once

// The bytes that a server holds for its clients at a time: payloads of requests that are being
// received or worked on, or of answers that have not been sent yet. A caller asks for room before
// it brings bytes, and either gets room for all of them or waits. Waiting callers are served in the
// order in which they asked, so that smaller requests do not pass a large one for ever. Bytes that
// have arrived already are charged without asking; callers then wait the longer. A caller is always
// let in eventually, whatever its size and whatever came unasked, so the bytes held are at most the
// budget (or one message, if that is larger) and what came unasked.
//
// Nobody holds room while waiting for more of the same budget, so room always comes back as long as
// what was let in ends; a server with two budgets takes them in one order.

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>

#include "absl/functional/any_invocable.h"
#include "common/base/invariants.h"
#include "common/base/mutex.h"

namespace cohort {

// Thread-safe. Always owned by a shared_ptr: leases hold it.
class ByteBudget : public std::enable_shared_from_this<ByteBudget> {
 public:
  // Room for some bytes; its end gives the room back and runs, on the same thread, the callbacks of
  // callers that waited for it. Thread-safe.
  class Lease {
   public:
    ~Lease();
    Lease(const Lease&) = delete;
    Lease& operator=(const Lease&) = delete;

   private:
    friend class ByteBudget;
    Lease(std::shared_ptr<ByteBudget> budget, size_t bytes, bool asked)
        : budget_(std::move(budget)), bytes_(bytes), asked_(asked) {}
    const std::shared_ptr<ByteBudget> budget_;
    const size_t bytes_;
    const bool asked_;
  };
  using Room = std::shared_ptr<const Lease>;  // shared by the pieces of what it is for
  using Granted = absl::AnyInvocable<void(Room)>;

  explicit ByteBudget(size_t bytes_max) : bytes_max_(bytes_max) {}

  // Asks for room. `granted` runs once, inside this call or inside the end of another lease; it
  // must not block. A callback that no longer wants the room drops it.
  void Ask(size_t bytes, Granted granted);

  // Takes room at once. Returns null if callers wait, or if this one would have to.
  Room TryTake(size_t bytes);

  // Charges `bytes` that have already arrived. Never waits, so the budget may be exceeded.
  Room Take(size_t bytes);

  struct Stats {
    size_t held = 0;      // bytes
    size_t held_max = 0;  // so far
    size_t waiting = 0;   // bytes
    uint64_t waits = 0;   // how often somebody had to wait
  };
  Stats stats() const;
  // Begins `held_max` and `waits` anew.
  void CountAnew();
  size_t bytes_max() const { return bytes_max_; }

 private:
  struct Waiter {
    size_t bytes = 0;
    Granted granted;
  };

  friend class InvariantsAfter<ByteBudget>;

  // Aborts unless the bytes that wait are those of the waiters. The bytes held are checked where
  // leases end.
  void CheckInvariants() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Return(const Lease& lease);
  void LetIn();
  bool FitsLocked(size_t bytes) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  Room HoldLocked(size_t bytes, bool asked) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const size_t bytes_max_;
  mutable Mutex mutex_;
  std::deque<Waiter> waiters_ ABSL_GUARDED_BY(mutex_);
  bool letting_in_ ABSL_GUARDED_BY(mutex_) = false;  // one thread at a time lets callers in
  uint64_t asked_held_ ABSL_GUARDED_BY(mutex_) = 0;  // leases
  Stats stats_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace cohort
