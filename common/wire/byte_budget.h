#pragma once

// How many bytes a server holds for its clients at a time: payloads of requests that are being
// received or worked on, or of answers that have not gone yet. Who wants to bring bytes asks, and
// is given room for all of them or waits; those who wait are served in the order in which they
// asked, so that none is passed for ever by smaller ones. Bytes that are here already are taken
// account of without asking, and who asks waits the longer for it. One who asks is always let in,
// whatever its size and whatever came unasked, so what is held is at most the budget, or one
// message where that is larger, and what came unasked.
//
// Nobody holds room while it waits for more of the same budget, so some room always comes back as
// long as what was let in ends; a server with two budgets takes them in one order.

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>

#include "absl/functional/any_invocable.h"
#include "common/base/mutex.h"

namespace cohort {

// Thread-safe. Always owned by a shared_ptr: leases hold it.
class ByteBudget : public std::enable_shared_from_this<ByteBudget> {
 public:
  // Room for some bytes, which goes back with its end. On whatever thread that is, those run who
  // waited for it. Thread-safe.
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

  // `granted` runs once, inside this call or inside the end of another lease; it must not block.
  // Who does not want the room any more by then drops it.
  void Ask(size_t bytes, Granted granted);

  // Null where somebody waits, or would have to.
  Room TryTake(size_t bytes);

  // Of bytes that are here already.
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

  void Return(const Lease& lease);
  void LetIn();
  bool FitsLocked(size_t bytes) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  Room HoldLocked(size_t bytes, bool asked) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const size_t bytes_max_;
  mutable Mutex mutex_;
  std::deque<Waiter> waiters_ ABSL_GUARDED_BY(mutex_);
  bool letting_in_ ABSL_GUARDED_BY(mutex_) = false;  // by one thread at a time
  uint64_t asked_held_ ABSL_GUARDED_BY(mutex_) = 0;  // leases
  Stats stats_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace cohort
