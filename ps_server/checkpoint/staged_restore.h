#pragma once

// The rows that a restore needs, filled in the order in which their bytes arrive. Staging does not
// change the slices: only a complete set of rows is handed on, to be restored at once.

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

// The rows of one restore whose bytes arrive in chunks. Thread-compatible.
class StagedRestore {
 public:
  struct Plan {
    RestoreSource source;
    std::vector<VariableSlice*> shards;
    std::vector<WantedRows> wanted;  // the plan that PlanRestore has made
  };
  // Allocates the memory of all rows of the plan.
  explicit StagedRestore(Plan plan);

  const Plan& plan() const { return plan_; }
  proto::StageRestoreResponse Describe() const;

  // Writes a chunk of bytes at `offset`, counted over all rows one after another. A chunk that has
  // arrived already changes nothing. Errors: FAILED_PRECONDITION (STALE) if the chunk leaves a gap
  // or part of it has arrived already; INVALID_ARGUMENT beyond the end; DATA_LOSS (TRANSIENT) if
  // the bytes do not match `crc32c`.
  absl::Status Write(uint64_t offset, uint32_t crc32c, const Payload& payload);

  // Hands over the rows, in the order of the plan. Errors: FAILED_PRECONDITION (STALE) if bytes are
  // missing, or if the home has more slices than the restore was planned for.
  absl::StatusOr<std::vector<Tensor>> Take(size_t num_shards);

 private:
  const Plan plan_;
  std::vector<Tensor> rows_;
  uint64_t size_ = 0;
  uint64_t received_ = 0;
  size_t row_ = 0;        // the element of rows_ to which the next byte belongs
  size_t row_bytes_ = 0;  // number of bytes of rows_[row_] that have arrived
};

// The restore that a coordinator is staging on a home, and the outcome of the last restore that was
// taken. Both belong to one epoch and are dropped with it. A restore that no call has asked for in
// two minutes is dropped too. Every error is FAILED_PRECONDITION (STALE). Thread-compatible.
class Staging {
 public:
  // Enters an epoch: drops everything if the epoch is not the present one.
  void EnterEpoch(uint64_t epoch);

  // Returns the restore that is staged under this number, or null if it is still to be staged.
  // Errors: for a number below the last staged one, and for a restore that has ended or was
  // dropped.
  absl::StatusOr<StagedRestore*> FindOrRefuse(uint64_t restore);
  // Stages a restore in the place of the former one.
  StagedRestore* Stage(uint64_t restore, StagedRestore::Plan plan, absl::Time now);
  // Returns the staged restore and notes that it was used. Errors: if the restore is not staged.
  absl::StatusOr<StagedRestore*> Find(uint64_t restore, absl::Time now);
  // Hands over the restore that Find has returned; it is no longer staged, whether it succeeds or
  // not.
  std::unique_ptr<StagedRestore> Take() { return std::move(staged_); }

  // Records how a taken restore ended: with a number of tensors, or with an error.
  void End(uint64_t restore, absl::StatusOr<uint32_t> tensors);
  // Returns the outcome of restore `restore` if it was the last one to end, else nothing.
  std::optional<absl::StatusOr<uint32_t>> FindEnded(uint64_t restore) const;

  // Drops the staged restore if no call has asked for it since kIdleMax. Returns when it will be
  // dropped, or InfiniteFuture if none is staged.
  absl::Time DropIdle(absl::Time now);

 private:
  uint64_t epoch_ = 0;
  std::unique_ptr<StagedRestore> staged_;
  uint64_t last_ = 0;  // number of the restore that was staged last
  absl::Time used_;
  uint64_t ended_ = 0;  // number of the restore that ended last
  absl::StatusOr<uint32_t> end_ = 0;
};

}  // namespace cohort
