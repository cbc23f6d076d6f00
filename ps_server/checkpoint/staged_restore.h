#pragma once

// The staging area of a restore: memory for the rows that the restore needs, which is filled in
// order as their bytes arrive. Staging does not change the slices. Only when all rows are complete
// are they handed over, and the slices are restored at once.

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

// The rows of one restore, whose bytes arrive in chunks. Thread-compatible.
class StagedRestore {
 public:
  struct Plan {
    RestoreSource source;
    std::vector<VariableSlice*> shards;
    std::vector<WantedRows> wanted;  // the row ranges to restore, from PlanRestore
  };
  // Allocates memory for all row ranges of the plan.
  explicit StagedRestore(Plan plan);

  const Plan& plan() const { return plan_; }
  proto::StageRestoreResponse Describe() const;

  // Writes a chunk of the rows' bytes. `offset` is the chunk's position among the bytes of all row
  // ranges of the plan, one range after another. A chunk whose bytes have all arrived before
  // changes nothing. Errors: FAILED_PRECONDITION (STALE) if the chunk leaves a gap, or if only part
  // of its bytes have arrived before; INVALID_ARGUMENT if the chunk goes beyond the last row;
  // DATA_LOSS (TRANSIENT) if the bytes do not match `crc32c`.
  absl::Status Write(uint64_t offset, uint32_t crc32c, const Payload& payload);

  // Hands over the rows, in the order of the plan. `num_shards` is the present number of slices of
  // the home. Errors: FAILED_PRECONDITION (STALE) if bytes are missing, or if the plan was made for
  // another number of slices.
  absl::StatusOr<std::vector<Tensor>> Take(size_t num_shards);

 private:
  const Plan plan_;
  std::vector<Tensor> rows_;
  uint64_t size_ = 0;
  uint64_t received_ = 0;
  size_t row_ = 0;        // index in rows_ of the tensor to which the next byte belongs
  size_t row_bytes_ = 0;  // number of bytes of the tensor rows_[row_] that are filled
};

// The restore that a coordinator is staging on a home, and the outcome of the last restore that was
// carried out. Both belong to one epoch and are dropped when the epoch changes. The staged restore
// is also dropped if no call uses it for kIdleMax. Every error is FAILED_PRECONDITION (STALE).
// Thread-compatible.
class Staging {
 public:
  // Enters an epoch: drops the staged restore and the recorded outcome if `epoch` is not the
  // present epoch.
  void EnterEpoch(uint64_t epoch);

  // Returns the staged restore if its number is `restore`, or null if the caller must stage this
  // restore. Errors: if the number is below that of the last staged restore, or if this restore was
  // taken or dropped.
  absl::StatusOr<StagedRestore*> FindOrRefuse(uint64_t restore);
  // Stages a restore, which replaces the restore that was staged before.
  StagedRestore* Stage(uint64_t restore, StagedRestore::Plan plan, absl::Time now);
  // Returns the staged restore and records `now` as its last use. Errors: if the staged restore
  // does not have the number `restore`.
  absl::StatusOr<StagedRestore*> Find(uint64_t restore, absl::Time now);
  // Hands over the restore that Find has returned. The restore is no longer staged afterwards, even
  // if the caller fails to apply it.
  std::unique_ptr<StagedRestore> Take() { return std::move(staged_); }

  // Records the outcome of a restore that was taken: the number of tensors that it restored, or its
  // error.
  void End(uint64_t restore, absl::StatusOr<uint32_t> tensors);
  // Returns the recorded outcome of restore number `restore`, or nullopt if another restore has
  // ended since or this one has not ended.
  std::optional<absl::StatusOr<uint32_t>> FindEnded(uint64_t restore) const;

  // Drops the staged restore if no call has used it for kIdleMax. Returns the time at which the
  // staged restore can be dropped, or InfiniteFuture if none is staged.
  absl::Time DropIdle(absl::Time now);

 private:
  uint64_t epoch_ = 0;
  std::unique_ptr<StagedRestore> staged_;
  uint64_t last_ = 0;  // number of the last restore that was staged
  absl::Time used_;
  uint64_t ended_ = 0;  // number of the last restore whose outcome was recorded
  absl::StatusOr<uint32_t> end_ = 0;
};

}  // namespace cohort
