#pragma once

// The decision who may push, and what. A push is first admitted (Admit), which lets its watermark
// count; then it is checked again under the lock of each slice (Check), because a fence or another
// epoch may have come in between. Which closures a slice has already taken is the slice's own
// knowledge (applied_set.h): it lies, and is saved and restored, with the value. The gate tells the
// slice how to read that knowledge, by the window: whose closures these are, and below which id all
// have ended.
//
// The watermark only grows: a push below it is stale, never applied again. Only the restore of a
// cut may take it back, because closures that the cut does not cover run again under their old ids;
// that happens under a raised epoch, so no push from before can pass afterwards. Closure ids are a
// coordinator's own: with another coordinator incarnation watermark and fence start anew, and
// slices forget.

#include <cstddef>
#include <cstdint>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/base/invariants.h"
#include "common/base/mutex.h"
#include "ps_server/slice/applied_set.h"

namespace cohort {

// Intervals of worker incarnations that one coordinator may fence. A coordinator numbers what it
// gives to workers from 1 on (RunClosureRequest.session), and all but the last of each worker are
// fenced sooner or later: a few intervals.
inline constexpr size_t kFencedIntervalsMax = 4096;

// A push's description of its sender.
struct PushTicket {
  uint64_t epoch = 0;
  uint64_t closure_id = 0;
  uint64_t worker_incarnation = 0;
  uint64_t watermark = 0;
};

struct ClosureWindow {
  uint64_t coordinator_incarnation = 0;  // whose ids
  uint64_t watermark = 0;                // every closure below has ended everywhere
};

// Thread-safe.
class PushGate {
 public:
  // Pushes of lower epochs are stale from now on. Another coordinator incarnation than the last one
  // takes the watermark back to 0 and empties the fence.
  void StartEpoch(uint64_t epoch, uint64_t coordinator_incarnation);

  // Lets a push in and raises the watermark. Errors: INVALID_ARGUMENT for closure 0 or a watermark
  // above the closure; FAILED_PRECONDITION (STALE) for an epoch that is not the current one, a
  // fenced worker, or a closure below the watermark.
  absl::Status Admit(const PushTicket& ticket);

  // Checks a push under the lock of the slice that is about to change. Errors: FAILED_PRECONDITION
  // (STALE) if the sender was fenced or its closure ended since Admit.
  absl::StatusOr<ClosureWindow> Check(const PushTicket& ticket) const;

  // Returns the window for a call that is not a push. Errors: FAILED_PRECONDITION (STALE) for
  // another epoch than the current one.
  absl::StatusOr<ClosureWindow> Window(uint64_t epoch) const;

  struct FenceOrder {
    uint64_t epoch = 0;
    absl::Span<const uint64_t> worker_incarnations;
    uint64_t watermark = 0;
  };
  // Pushes of these workers, and of closures below the watermark, are stale from now on. Errors:
  // those of Window; RESOURCE_EXHAUSTED; and then nothing is fenced.
  absl::Status Fence(const FenceOrder& order);

  // Sets the watermark, also to a lower one, before the slices of a cut are restored. Errors: those
  // of Window.
  absl::Status RestoreWatermark(uint64_t epoch, uint64_t watermark);

 private:
  friend class InvariantsAfter<PushGate>;

  // Aborts unless the fence is one of this coordinator's workers, and the watermark of its
  // closures.
  void CheckInvariants() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status CheckEpochLocked(uint64_t epoch) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status CheckSenderLocked(const PushTicket& ticket) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  mutable Mutex mutex_;
  uint64_t epoch_ ABSL_GUARDED_BY(mutex_) = 0;
  ClosureWindow window_ ABSL_GUARDED_BY(mutex_);
  AppliedSet fenced_ ABSL_GUARDED_BY(mutex_){kFencedIntervalsMax};  // worker incarnations
};

}  // namespace cohort
