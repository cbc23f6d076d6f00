#pragma once

// The push gate of a home decides which pushes may change slices. A push is checked first when it
// arrives (Admit), which also raises the gate's watermark to the watermark in the push. The push is
// checked again under the lock of each slice (Check), because its worker may have been fenced, or
// the epoch may have changed, since Admit. Each slice keeps the ids of the closures that it has
// applied (applied_set.h); these ids are saved and restored with the slice's value. Check and
// Window return a ClosureWindow, which tells the slice which coordinator counts the ids, and the
// present watermark.
//
// The watermark only rises, so a push of a closure below the watermark is stale and never applied.
// The one exception is the restore of a cut, which may lower the watermark, because closures that
// the cut does not cover run again under the same ids. A restore happens in a new epoch, so no push
// that was sent before the restore is applied after it. Each coordinator counts its own closure
// ids: when another coordinator incarnation takes over, the gate resets the watermark and the
// fenced incarnations, and slices forget the applied closures.

#include <cstddef>
#include <cstdint>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/base/invariants.h"
#include "common/base/mutex.h"
#include "ps_server/slice/applied_set.h"

namespace cohort {

// The maximum number of intervals of worker incarnations that can be fenced at a time. These
// incarnations are the session numbers that a coordinator gives to its workers, from 1 on
// (RunClosureRequest.session). Sooner or later all sessions except each worker's last one are
// fenced, so few intervals are needed.
inline constexpr size_t kFencedIntervalsMax = 4096;

// The fields of a push by which the gate judges it: epoch, closure, worker incarnation, and the
// watermark that the worker knew when it sent the push.
struct PushTicket {
  uint64_t epoch = 0;
  uint64_t closure_id = 0;
  uint64_t worker_incarnation = 0;
  uint64_t watermark = 0;
};

struct ClosureWindow {
  // Incarnation of the coordinator that counts the closure ids.
  uint64_t coordinator_incarnation = 0;
  uint64_t watermark = 0;  // every closure with an id below the watermark has ended
};

// The epoch, the fenced worker incarnations and the watermark of one home, by which pushes are
// accepted or refused. Thread-safe.
class PushGate {
 public:
  // Starts an epoch; pushes of other epochs are refused as stale afterwards. If the epoch belongs
  // to another coordinator incarnation than the last epoch, sets the watermark to 0 and forgets the
  // fenced workers.
  void StartEpoch(uint64_t epoch, uint64_t coordinator_incarnation);

  // Checks a push on its arrival, and raises the gate's watermark to the one in the push. Errors:
  // INVALID_ARGUMENT for closure 0 or a watermark above the closure's id; FAILED_PRECONDITION
  // (STALE) for an epoch that is not the current one, a fenced worker, or a closure below the
  // gate's watermark.
  absl::Status Admit(const PushTicket& ticket);

  // Checks an admitted push again, under the lock of the slice that it is about to change. Errors:
  // FAILED_PRECONDITION (STALE) if since Admit the worker was fenced, the closure ended or the
  // epoch changed.
  absl::StatusOr<ClosureWindow> Check(const PushTicket& ticket) const;

  // Returns the coordinator incarnation and the watermark, for a call that is not a push. Errors:
  // FAILED_PRECONDITION (STALE) if `epoch` is not the current one.
  absl::StatusOr<ClosureWindow> Window(uint64_t epoch) const;

  struct FenceOrder {
    uint64_t epoch = 0;
    absl::Span<const uint64_t> worker_incarnations;
    uint64_t watermark = 0;
  };
  // Fences worker incarnations and raises the watermark to the order's. Afterwards, pushes from
  // these workers and pushes of closures below the watermark are refused as stale. Errors: those of
  // Window; RESOURCE_EXHAUSTED for more than kFencedIntervalsMax intervals of fenced incarnations.
  // After an error nothing has changed.
  absl::Status Fence(const FenceOrder& order);

  // Sets the watermark, even to a lower value. Called before the slices of a cut are restored.
  // Errors: those of Window.
  absl::Status RestoreWatermark(uint64_t epoch, uint64_t watermark);

 private:
  friend class InvariantsAfter<PushGate>;

  // Aborts if workers are fenced or the watermark is not 0 before the first epoch, or if fenced_
  // has a watermark.
  void CheckInvariants() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status CheckEpochLocked(uint64_t epoch) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status CheckSenderLocked(const PushTicket& ticket) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  mutable Mutex mutex_;
  uint64_t epoch_ ABSL_GUARDED_BY(mutex_) = 0;
  ClosureWindow window_ ABSL_GUARDED_BY(mutex_);
  // The incarnations of the fenced workers. The set's own watermark stays 0, so a worker is fenced
  // only if its incarnation was added.
  AppliedSet fenced_ ABSL_GUARDED_BY(mutex_){kFencedIntervalsMax};
};

}  // namespace cohort
