#pragma once

// Once-only pushes. A closure may be pushed many times: a reply is lost and the call is made again,
// a second attempt runs on another worker, a slow first attempt arrives late. The log knows, for
// each closure, which slices its gradient was applied to, so that each slice takes it once.
//
// A push is first admitted (Admit: the sender is not fenced, the closure is not finished, there is
// room), which makes a record per slice; then, under the lock of each slice, claimed (Claim): the
// first claim of a record applies, every later one is a duplicate. The watermark only grows: every
// closure below it is done everywhere, its records are dropped, and a push that arrives for it is
// stale, never applied again. Closure ids are a coordinator's own, so another coordinator
// incarnation starts an empty log; the epoch in a ticket keeps late pushes of the old one out.

#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/base/mutex.h"

namespace cohort {

// Records (closure, slice) that are held at most: 16 MiB.
inline constexpr size_t kApplyLogMax = size_t{1} << 20;
// Worker incarnations that one coordinator may fence.
inline constexpr size_t kFencedMax = size_t{1} << 16;

// What a push says of its sender.
struct PushTicket {
  uint64_t epoch = 0;
  uint64_t closure_id = 0;
  uint64_t worker_incarnation = 0;
  uint64_t watermark = 0;
};

enum class Claim { kApply, kDuplicate };

// Thread-safe.
class ApplyLog {
 public:
  explicit ApplyLog(size_t records_max) : records_max_(records_max) {}

  // Pushes of lower epochs are stale from now on. Another coordinator incarnation than the last one
  // empties the log and the fence.
  void StartEpoch(uint64_t epoch, uint64_t coordinator_incarnation);

  // Makes room for the slices of a push (distinct ids) and raises the watermark. Errors:
  // INVALID_ARGUMENT for closure 0 or a watermark above the closure; FAILED_PRECONDITION (STALE)
  // for an epoch that is not the current one, a fenced worker, or a closure below the watermark;
  // RESOURCE_EXHAUSTED (TRANSIENT) when the log is full.
  absl::Status Admit(const PushTicket& ticket, absl::Span<const uint32_t> slice_ids);

  // One slice of an admitted push. Errors: FAILED_PRECONDITION (STALE) when the sender was fenced
  // or its closure finished since Admit.
  absl::StatusOr<Claim> ClaimSlice(const PushTicket& ticket, uint32_t slice_id);

  // Pushes of these workers, and of closures below `watermark`, are stale from now on. Errors:
  // RESOURCE_EXHAUSTED, and then nothing is fenced.
  absl::Status Fence(absl::Span<const uint64_t> worker_incarnations, uint64_t watermark = 0);

  // Records held.
  size_t size() const;

 private:
  struct Record {
    uint32_t slice_id = 0;
    bool applied = false;
  };
  using Records = std::vector<Record>;  // of one closure, by ascending slice id

  absl::Status CheckSenderLocked(const PushTicket& ticket) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void RaiseWatermarkLocked(uint64_t watermark) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const size_t records_max_;

  mutable Mutex mutex_;
  uint64_t epoch_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t coordinator_incarnation_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t watermark_ ABSL_GUARDED_BY(mutex_) = 0;
  size_t records_ ABSL_GUARDED_BY(mutex_) = 0;
  std::map<uint64_t, Records> closures_ ABSL_GUARDED_BY(mutex_);  // ordered: pruned from the start
  std::set<uint64_t> fenced_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace cohort
