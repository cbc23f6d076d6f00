#pragma once

// The rows that a restore needs, filled in the order in which their bytes come. Nothing of the
// slices changes by that: only a whole staging is handed on, to be restored at once.

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/tensor/tensor.h"
#include "common/wire/message.h"
#include "proto/ps.pb.h"
#include "ps_server/checkpoint/checkpoint_io.h"

namespace cohort {

// Thread-compatible.
class StagedRestore {
 public:
  struct Plan {
    RestoreSource source;
    std::vector<VariableSlice*> shards;
    std::vector<WantedRows> wanted;  // made by PlanRestore
  };
  // Allocates all of the rows.
  explicit StagedRestore(Plan plan);

  const Plan& plan() const { return plan_; }
  proto::StageRestoreResponse Describe() const;

  // Writes the bytes from `offset` on of all rows, one after another. A chunk that has come already
  // changes nothing. Errors: FAILED_PRECONDITION (STALE) if the chunk leaves a gap or came in part;
  // INVALID_ARGUMENT beyond the end; DATA_LOSS (TRANSIENT) if `crc32c` differs.
  absl::Status Write(uint64_t offset, uint32_t crc32c, const Payload& payload);

  // Hands over the rows, in the order of the plan. Errors: FAILED_PRECONDITION (STALE) if bytes are
  // missing, or if there are more slices than were planned for.
  absl::StatusOr<std::vector<Tensor>> Take(size_t num_shards);

 private:
  const Plan plan_;
  std::vector<Tensor> rows_;
  uint64_t size_ = 0;
  uint64_t received_ = 0;
  size_t row_ = 0;        // the entry of rows_ that the next byte belongs to
  size_t row_bytes_ = 0;  // bytes of that entry that have come
};

// The restore that a coordinator is staging on a ps, and what the last one ended with: of one
// epoch, with which it goes. What nobody asked for in two minutes goes too. Every error is
// FAILED_PRECONDITION (STALE). Thread-compatible.
class Staging {
 public:
  // Drops everything if the epoch is another one than before.
  void EnterEpoch(uint64_t epoch);

  // Returns the restore that is staged under this number, or nothing if it is to be made. Errors:
  // for a number below the last one, and for one that has ended or was dropped.
  absl::StatusOr<StagedRestore*> FindOrRefuse(uint64_t restore);
  // Stages a restore instead of the one before.
  StagedRestore* Stage(uint64_t restore, StagedRestore::Plan plan, absl::Time now);
  // Errors: when it is not staged.
  absl::StatusOr<StagedRestore*> Find(uint64_t restore, absl::Time now);
  // Hands over what Find has found: it is staged no longer, whatever becomes of it.
  std::unique_ptr<StagedRestore> Take() { return std::move(staged_); }

  // Notes how a taken restore ended: with so many tensors, or with an error.
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
