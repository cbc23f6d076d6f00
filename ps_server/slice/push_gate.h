#pragma once

// The gate decides which pushes may change slices. A push is first admitted (Admit), which makes
// its watermark count. The push is then checked again under the lock of each slice (Check), because
// a fence or another epoch may have arrived in between. Each slice knows which closures it has
// applied (applied_set.h); this knowledge is saved and restored with the slice's value. The gate
// gives a slice the window by which to read its knowledge: the coordinator whose closure ids these
// are, and the watermark.
//
// The watermark only rises: a push of a closure below the watermark is stale and never applied
// again. Only the restore of a cut may lower the watermark, because closures that the cut does not
// cover run again under their old ids. A restore happens under a raised epoch, so no push sent
// before the restore can pass afterwards. Each coordinator counts its own closure ids: with another
// coordinator incarnation the watermark and the fence start anew, and slices forget the closures
// that they have applied.

#include <cstddef>
#include <cstdint>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/base/invariants.h"
#include "common/base/mutex.h"
#include "ps_server/slice/applied_set.h"

namespace cohort {

// The maximum number of intervals of worker incarnations that one coordinator may fence. A
// coordinator numbers the sessions of its workers from 1 on (RunClosureRequest.session), and all
// sessions but each worker's last are fenced sooner or later, so a few intervals hold them.
inline constexpr size_t kFencedIntervalsMax = 4096;

// The sender of a push: its epoch, closure and worker incarnation, and the watermark that it knew.
struct PushTicket {
  uint64_t epoch = 0;
  uint64_t closure_id = 0;
  uint64_t worker_incarnation = 0;
  uint64_t watermark = 0;
};

struct ClosureWindow {
  uint64_t coordinator_incarnation = 0;  // the coordinator whose closure ids count
  uint64_t watermark = 0;                // every closure with a lower id has ended everywhere
};

// The epoch, the fence and the watermark of one home, which decide over pushes. Thread-safe.
class PushGate {
 public:
  // Starts an epoch: pushes of lower epochs are stale from now on. A coordinator incarnation other
  // than the last one sets the watermark to 0 and empties the fence.
  void StartEpoch(uint64_t epoch, uint64_t coordinator_incarnation);

  // Admits a push and raises the watermark to the push's own. Errors: INVALID_ARGUMENT for closure
  // 0 or a watermark above the closure's id; FAILED_PRECONDITION (STALE) for an epoch that is not
  // the current one, a fenced worker, or a closure below the watermark.
  absl::Status Admit(const PushTicket& ticket);

  // Checks a push again, under the lock of the slice that is about to change. Errors:
  // FAILED_PRECONDITION (STALE) if the sender was fenced, its closure ended or the epoch changed
  // after Admit.
  absl::StatusOr<ClosureWindow> Check(const PushTicket& ticket) const;

  // Returns the window for a call that is not a push. Errors: FAILED_PRECONDITION (STALE) if
  // `epoch` is not the current one.
  absl::StatusOr<ClosureWindow> Window(uint64_t epoch) const;

  struct FenceOrder {
    uint64_t epoch = 0;
    absl::Span<const uint64_t> worker_incarnations;
    uint64_t watermark = 0;
  };
  // Fences worker incarnations: their pushes, and pushes of closures below the order's watermark,
  // are stale from now on. Errors: those of Window; RESOURCE_EXHAUSTED for too many intervals.
  // After an error nothing is fenced.
  absl::Status Fence(const FenceOrder& order);

  // Sets the watermark, possibly to a lower one, before the slices of a cut are restored. Errors:
  // those of Window.
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
  AppliedSet fenced_ ABSL_GUARDED_BY(mutex_){kFencedIntervalsMax};  // incarnations of workers
};

}  // namespace cohort
