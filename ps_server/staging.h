#pragma once

// The restore that a coordinator is staging on a ps, and the last one that it committed: of one
// epoch, with which it goes. What nobody asked for in two minutes goes too.

#include <cstdint>
#include <memory>
#include <optional>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "ps_server/staged_restore.h"

namespace cohort {

// Every error is FAILED_PRECONDITION (STALE). Thread-compatible.
class Staging {
 public:
  // Another epoch than the one before drops everything.
  void EnterEpoch(uint64_t epoch);

  // The restore that is staged under this number; nothing when it is to be made. Errors: for a
  // number below the last one, and for one that was committed or dropped.
  absl::StatusOr<StagedRestore*> FindOrRefuse(uint64_t restore);
  // Instead of the one before.
  StagedRestore* Stage(uint64_t restore, StagedRestore::Plan plan, absl::Time now);
  // Errors: when it is not staged.
  absl::StatusOr<StagedRestore*> Find(uint64_t restore, absl::Time now);

  // The slices have it; frees its memory.
  void Commit(uint64_t restore, uint32_t tensors);
  // How many tensors it had, where it was committed.
  std::optional<uint32_t> FindCommitted(uint64_t restore) const;

  // Drops what was last asked for kIdleMax ago. When it will be: InfiniteFuture for nothing.
  absl::Time DropIdle(absl::Time now);

 private:
  uint64_t epoch_ = 0;
  std::unique_ptr<StagedRestore> staged_;
  uint64_t last_ = 0;  // number that was staged last
  absl::Time used_;
  uint64_t committed_ = 0;
  uint32_t committed_tensors_ = 0;
};

}  // namespace cohort
