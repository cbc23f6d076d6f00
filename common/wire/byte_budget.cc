#include "common/wire/byte_budget.h"

#include <algorithm>
#include <utility>

#include "common/base/check.h"
#include "common/base/invariants.h"

namespace cohort {

ByteBudget::Lease::~Lease() { budget_->Return(*this); }

bool ByteBudget::FitsLocked(size_t bytes) const {
  // A request larger than the budget also fits, once all room that Ask and TryTake have granted was
  // given back. Room for bytes that arrived unasked does not count here, because such bytes may
  // arrive again and again.
  if (asked_held_ == 0) return true;
  return stats_.held <= bytes_max_ && bytes <= bytes_max_ - stats_.held;
}

ByteBudget::Room ByteBudget::HoldLocked(size_t bytes, bool asked) {
  stats_.held += bytes;
  stats_.held_max = std::max(stats_.held_max, stats_.held);
  if (asked) ++asked_held_;
  return Room(new Lease(shared_from_this(), bytes, asked));
}

void ByteBudget::Ask(size_t bytes, Granted granted) {
  // `granted` runs outside the lock, because it may drop its Lease, whose destructor takes the
  // lock.
  if (Room room = TryTake(bytes)) return granted(std::move(room));
  {
    MutexLock lock(mutex_);
    const InvariantsAfter check(*this);
    waiters_.push_back({bytes, std::move(granted)});
    stats_.waiting += bytes;
    ++stats_.waits;
  }
  LetIn();  // a Lease may have ended since TryTake failed; LetIn grants its room
}

ByteBudget::Room ByteBudget::TryTake(size_t bytes) {
  MutexLock lock(mutex_);
  const InvariantsAfter check(*this);
  if (!waiters_.empty() || !FitsLocked(bytes)) return nullptr;
  return HoldLocked(bytes, /*asked=*/true);
}

ByteBudget::Room ByteBudget::Take(size_t bytes) {
  MutexLock lock(mutex_);
  const InvariantsAfter check(*this);
  return HoldLocked(bytes, /*asked=*/false);
}

void ByteBudget::Return(const Lease& lease) {
  {
    MutexLock lock(mutex_);
    const InvariantsAfter check(*this);
    COHORT_DCHECK(stats_.held >= lease.bytes_, "room is given back once");
    stats_.held -= lease.bytes_;
    if (lease.asked_) --asked_held_;
  }
  LetIn();
}

// Grants room to waiting callers in order, on one thread at a time. A callback that drops its Lease
// at once calls LetIn again. This inner call returns at once, because the loop of the outer call
// grants the returned room. So the stack does not grow, however many callbacks drop their Leases.
void ByteBudget::LetIn() {
  {
    MutexLock lock(mutex_);
    if (letting_in_) return;
    letting_in_ = true;
  }
  while (true) {
    Waiter next;
    Room room;
    {
      MutexLock lock(mutex_);
      const InvariantsAfter check(*this);
      // Only the first waiter is tried, so that a smaller request cannot overtake the request that
      // has waited longest.
      if (waiters_.empty() || !FitsLocked(waiters_.front().bytes)) {
        letting_in_ = false;
        return;
      }
      next = std::move(waiters_.front());
      waiters_.pop_front();
      stats_.waiting -= next.bytes;
      room = HoldLocked(next.bytes, /*asked=*/true);
    }
    // `granted` runs outside the lock, because it may ask for more room or drop its Lease.
    next.granted(std::move(room));
  }
}

ByteBudget::Stats ByteBudget::stats() const {
  MutexLock lock(mutex_);
  return stats_;
}

void ByteBudget::CountAnew() {
  MutexLock lock(mutex_);
  const InvariantsAfter check(*this);
  stats_.held_max = stats_.held;
  stats_.waits = 0;
}

void ByteBudget::CheckInvariants() const {
  COHORT_CHECK(stats_.held <= stats_.held_max, "held_max is at least the bytes held now");
  if (waiters_.size() > kInvariantWalkMax) return;
  size_t waiting = 0;
  for (const Waiter& waiter : waiters_) waiting += waiter.bytes;
  COHORT_CHECK(waiting == stats_.waiting, "the bytes that wait are those of the waiters");
}

}  // namespace cohort
