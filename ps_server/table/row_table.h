#pragma once

// A dynamic embedding table on one parameter server: rows of 16- or 32-bit floats, each under a
// 64-bit key. Every 64-bit number is a valid key, and the number of rows is not fixed in advance. A
// key gets its row at its first push, or at the push with which the policy admits the key
// (row_policy.h). A key without a row is read as the initial values of its row, which depend only
// on (seed, table, key); so the values do not depend on the order of requests or on the number of
// parameter servers. The optimizer slots of a row are stored with the row, in float32.
//
// The table is divided by the hashes of the keys into stripes, each with its own lock. The keys of
// a batch are sorted by stripe, so that each lock is taken once. A row is read and changed under
// its stripe's lock, so no reader sees a half-changed row; a batch as a whole is not atomic.

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/base/mutex.h"
#include "common/runtime/update/update_kernel.h"
#include "common/tensor/tensor.h"
#include "ps_server/table/row_stripe.h"
#include "ps_server/table/table_state.h"

namespace cohort {

struct RowTableOptions {
  RowSpec row;
  RowPolicy policy;
  proto::UpdateRule rule;
};

// The learning rate and the step number of a push.
struct PushRates {
  double learning_rate = 0;
  uint64_t step = 1;  // number of the training step, counted from 1
};

struct RowTableUse {
  size_t rows = 0;
  size_t row_bytes = 0;  // size in bytes of all blocks of rows
  size_t index_bytes = 0;
  // Size in bytes of the values and slots of all rows, without headers and padding.
  size_t payload_bytes = 0;
  RowCounts counts;
};

// Rows of a table as a checkpoint has them: all rows, or those of some keys, in any order. Expired
// rows that were not removed yet are included.
struct TableRows {
  Tensor keys;  // int64[n]: the keys, whose bits are those of the uint64 keys
  // Int32[n, 2]: the row's age since its last push, in RowTime ticks; number of pushes.
  Tensor uses;
  Tensor values;  // [n, width] in the table's type: the values
  // The slots in the order of the update rule's slots, each float32[n, width] or float32[n]. If
  // this list is empty, Load gives each row the initial slots of a new row.
  std::vector<Tensor> slots;
};

// A dynamic table: all its rows, divided into stripes with one lock each. Thread-safe.
class RowTable {
 public:
  static constexpr size_t kStripes = static_cast<size_t>(TableState::kStripes);

  // Makes a table without rows. Errors: those of RowLayout::Make and CheckRowPolicy;
  // INVALID_ARGUMENT for an update rule that has no kernel.
  static absl::StatusOr<std::unique_ptr<RowTable>> Create(const RowTableOptions& options);
  ~RowTable();

  const RowLayout& layout() const { return rules_.layout; }

  // Copies the values of the keys' rows to `out`, in the order of the keys. `out` has room for
  // exactly one row for each key. A key may occur more than once.
  void Pull(absl::Span<const uint64_t> keys, absl::Time now, absl::Span<float> out) const;

  // Updates each key's row by the table's update rule, with the row of `gradients` at the key's
  // position. If a key has no row and the policy does not admit the key, its gradient is dropped.
  // The gradients of a repeated key are applied one after another, in the order of the keys.
  void Push(absl::Span<const uint64_t> keys, absl::Span<const float> gradients,
            const PushRates& rates, absl::Time now);

  // Replaces the values of each row by the row's last slot, which must have one element for each
  // value.
  void AssignFromLastSlot();

  // Returns all rows, with their ages at time `now`. The caller ensures that nothing is pushed
  // during the call.
  TableRows Save(absl::Time now) const;
  // Replaces all rows of the table by those rows of `parts` whose keys `takes` accepts. Each key
  // occurs once, and each part has the types and shapes of this table's rows. At the table's memory
  // limit, each further row replaces an old row as in a push. The caller ensures that nothing is
  // pushed during the call.
  void Load(absl::Span<const TableRows> parts, absl::FunctionRef<bool(uint64_t key)> takes,
            absl::Time now);
  // Returns the table's state without the clock, which the caller keeps. The caller ensures that
  // nothing is pushed during the call.
  TableState SaveState() const;
  // Restores the table's state; called after Load. If `parts` is a single state, saved from a table
  // with the same keys, this table behaves from then on as that table does. If `parts` has several
  // states, each key's count of sights becomes at least as high as in each state. The tensors have
  // the types and shapes of TableState.
  void LoadState(absl::Span<const TableState> parts);

  RowTableUse Use() const;

 private:
  struct LockedStripe {
    LockedStripe(const RowRules& rules, RowRegions& regions) : rows(rules, regions) {}

    Mutex mutex;
    RowStripe rows ABSL_GUARDED_BY(mutex);
  };
  struct Batch;

  RowTable(RowRules rules, std::unique_ptr<UpdateKernel> kernel);

  // Calls `visit` for each stripe to which keys of the batch belong, with these keys and under the
  // stripe's lock.
  void ForStripes(absl::Span<const uint64_t> keys,
                  absl::FunctionRef<void(RowStripe&, absl::Span<const KeyAt>)> visit) const;
  std::unique_ptr<Batch> TakeBatch() const;
  void ReturnBatch(std::unique_ptr<Batch> batch) const;
  void LoadRow(const TableRows& rows, size_t at, uint32_t now);

  // The rules and the update kernel do not change after construction.
  const RowRules rules_;
  const std::unique_ptr<UpdateKernel> kernel_;
  // The regions of memory for rows, which synchronise themselves by a lock of their own.
  RowRegions regions_;
  // The list of stripes does not change after construction, and each stripe has its own lock. The
  // rows of all stripes lie in regions_.
  std::vector<std::unique_ptr<LockedStripe>> stripes_;

  mutable Mutex mutex_;
  // Unused buffers for sorting the keys of a batch. Their number is the largest number of batches
  // that were processed at the same time.
  mutable std::vector<std::unique_ptr<Batch>> batches_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace cohort
