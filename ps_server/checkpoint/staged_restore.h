#pragma once

// The rows that a restore needs, filled in the order in which their bytes come. Nothing of the
// slices changes by that: only a whole staging is handed on, to be restored at once.

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
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
    std::vector<WantedRows> wanted;  // by PlanRestore
  };
  // Allocates all of the rows.
  explicit StagedRestore(Plan plan);

  const Plan& plan() const { return plan_; }
  proto::StageRestoreResponse Describe() const;

  // The bytes from `offset` on of all rows, one after another. A chunk that has come already
  // changes nothing. Errors: FAILED_PRECONDITION (STALE) when it leaves a gap or came in part;
  // INVALID_ARGUMENT behind the end; DATA_LOSS (TRANSIENT) when `crc32c` is another.
  absl::Status Write(uint64_t offset, uint32_t crc32c, const Payload& payload);

  // The rows, in the order of the plan; then this is empty. Errors: FAILED_PRECONDITION (STALE)
  // when bytes are missing, or when there are more slices than were planned for.
  absl::StatusOr<std::vector<Tensor>> Take(size_t num_shards);

 private:
  const Plan plan_;
  std::vector<Tensor> rows_;
  uint64_t size_ = 0;
  uint64_t received_ = 0;
  size_t row_ = 0;        // the entry of rows_ that the next byte belongs to
  size_t row_bytes_ = 0;  // of it that have come
};

}  // namespace cohort
