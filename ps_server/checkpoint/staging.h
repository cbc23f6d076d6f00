#pragma once

// The restore that a coordinator is staging on a ps, and what the last one ended with: of one
// epoch, with which it goes. What nobody asked for in two minutes goes too.

#include <cstdint>
#include <memory>
#include <optional>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "ps_server/checkpoint/staged_restore.h"

namespace cohort {

// Every error is FAILED_PRECONDITION (STALE). Thread-compatible.
class Staging {
 public:
  // Another epoch than the one before drops everything.
  void EnterEpoch(uint64_t epoch);

  // The restore that is staged under this number; nothing when it is to be made. Errors: for a
  // number below the last one, and for one that has ended or was dropped.
  absl::StatusOr<StagedRestore*> FindOrRefuse(uint64_t restore);
  // Instead of the one before.
  StagedRestore* Stage(uint64_t restore, StagedRestore::Plan plan, absl::Time now);
  // Errors: when it is not staged.
  absl::StatusOr<StagedRestore*> Find(uint64_t restore, absl::Time now);
  // Hands over what Find has found: it is staged no longer, whatever becomes of it.
  std::unique_ptr<StagedRestore> Take() { return std::move(staged_); }

  // The slices have what was taken, so many tensors, or why they do not.
  void End(uint64_t restore, absl::StatusOr<uint32_t> tensors);
  // Returns what the last restore that was taken has ended with, where it is this one.
  std::optional<absl::StatusOr<uint32_t>> FindEnded(uint64_t restore) const;

  // Drops what was last asked for kIdleMax ago. When it will be: InfiniteFuture for nothing.
  absl::Time DropIdle(absl::Time now);

 private:
  uint64_t epoch_ = 0;
  std::unique_ptr<StagedRestore> staged_;
  uint64_t last_ = 0;  // number that was staged last
  absl::Time used_;
  uint64_t ended_ = 0;  // number that ended last
  absl::StatusOr<uint32_t> end_ = 0;
};

}  // namespace cohort
