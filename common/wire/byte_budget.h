#pragma once

// A budget that limits the bytes that a server holds for its clients at a time: payloads of
// requests that are being received or worked on, or payloads of answers that have not been sent
// yet. A caller asks for room before it sends bytes, and either gets room for all of the bytes or
// waits. Waiting callers are served in the order in which they asked, so that smaller requests do
// not overtake a large request for ever. Bytes that have already arrived are charged without
// asking, which makes waiting callers wait longer. Every caller is let in eventually, whatever its
// size and whatever arrived unasked. The bytes held are at most the budget (or one message, if that
// message is larger) plus the bytes that arrived unasked.
//
// No caller holds room while it waits for more room of the same budget, so room always comes back
// as long as the admitted calls end. A server with two budgets asks them in one fixed order.

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>

#include "absl/functional/any_invocable.h"
#include "common/base/invariants.h"
#include "common/base/mutex.h"

namespace cohort {

// A budget of bytes that callers share. Thread-safe. Always owned by a shared_ptr, because each
// Lease keeps the budget alive.
class ByteBudget : public std::enable_shared_from_this<ByteBudget> {
 public:
  // Room in the budget for some bytes. The destructor gives the room back, and calls on its own
  // thread the callbacks of those waiting callers that now get room. Thread-safe.
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
  // A Lease, shared by the slices of the payload for which the room was granted.
  using Room = std::shared_ptr<const Lease>;
  using Granted = absl::AnyInvocable<void(Room)>;

  explicit ByteBudget(size_t bytes_max) : bytes_max_(bytes_max) {}

  // Asks for room for `bytes`. `granted` runs once: inside this or a later call of Ask, or inside
  // the destructor of another Lease. `granted` must not block. If the caller no longer wants the
  // room, `granted` drops the Lease that it gets.
  void Ask(size_t bytes, Granted granted);

  // Takes room for `bytes` at once. Returns null if other callers are waiting, or if the budget has
  // too little room now.
  Room TryTake(size_t bytes);

  // Charges `bytes` that have already arrived. Never waits, so the budget may be exceeded.
  Room Take(size_t bytes);

  struct Stats {
    size_t held = 0;      // bytes of room that is granted now
    size_t held_max = 0;  // highest value of `held` so far
    size_t waiting = 0;   // bytes of room for which callers wait
    uint64_t waits = 0;   // number of requests for room that had to wait
  };
  Stats stats() const;
  // Restarts the statistics `held_max` (from the present value of `held`) and `waits` (from 0).
  void CountAnew();
  size_t bytes_max() const { return bytes_max_; }

 private:
  struct Waiter {
    size_t bytes = 0;
    Granted granted;
  };

  friend class InvariantsAfter<ByteBudget>;

  // Aborts if stats_.waiting is not the sum of the waiters' bytes, or if stats_.held is above its
  // highest value so far.
  void CheckInvariants() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Return(const Lease& lease);
  void LetIn();
  bool FitsLocked(size_t bytes) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  Room HoldLocked(size_t bytes, bool asked) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const size_t bytes_max_;
  mutable Mutex mutex_;
  std::deque<Waiter> waiters_ ABSL_GUARDED_BY(mutex_);
  // True while a thread runs LetIn, which grants room to waiters.
  bool letting_in_ ABSL_GUARDED_BY(mutex_) = false;
  // The number of Leases of Ask or TryTake that have not ended.
  uint64_t asked_held_ ABSL_GUARDED_BY(mutex_) = 0;
  Stats stats_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace cohort
