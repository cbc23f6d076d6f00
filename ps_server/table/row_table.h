#pragma once

// A dynamic embedding table on one parameter server: rows of 16- or 32-bit floats under 64-bit
// keys, without a size that is known beforehand. Any of the 2^64 keys is permitted. The first push
// of a key makes its row, or the push that the policy admits (row_policy.h). Until then the key is
// read as the initial values of its row. These depend only on (seed, table, key), so neither the
// order of requests nor the number of parameter servers shows in them. The optimizer slots of a row
// are kept with the row, in float32.
//
// The table is divided by the keys' hashes into stripes with a lock each. A batch of keys is sorted
// by stripe and takes each lock once. Each row is read or changed under its stripe's lock, so no
// reader sees a row half changed; a batch as a whole is not atomic.

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

// The rates of one push, which its closure determines.
struct PushRates {
  double learning_rate = 0;
  uint64_t step = 1;  // number of the step, counted from 1
};

struct RowTableUse {
  size_t rows = 0;
  size_t row_bytes = 0;  // bytes of the system's memory that hold rows
  size_t index_bytes = 0;
  size_t payload_bytes = 0;  // bytes of the rows' values and slots alone
  RowCounts counts;
};

// All rows of a table, or of some of its keys, in any order, as a checkpoint holds them. They
// include rows that have expired and were not removed yet.
struct TableRows {
  Tensor keys;    // int64[n]: the bits of the keys
  Tensor uses;    // int32[n, 2]: RowTime ticks since the last push, and number of pushes
  Tensor values;  // [n, width] in the table's type
  // The slots in the order of the rule's slots, float32[n, width] or float32[n]. May be empty for
  // Load: each row then gets the slots of a new row.
  std::vector<Tensor> slots;
};

// A dynamic table: the rows of all stripes, each stripe under its own lock. Thread-safe.
class RowTable {
 public:
  static constexpr size_t kStripes = static_cast<size_t>(TableState::kStripes);

  // Makes an empty table. Errors: those of RowLayout::Make and CheckRowPolicy; INVALID_ARGUMENT for
  // a rule that has no kernel.
  static absl::StatusOr<std::unique_ptr<RowTable>> Create(const RowTableOptions& options);
  ~RowTable();

  const RowLayout& layout() const { return rules_.layout; }

  // Copies the values of the keys' rows to `out`, which has the table's width for each key. Keys
  // may repeat; the values are in the order of the keys.
  void Pull(absl::Span<const uint64_t> keys, absl::Time now, absl::Span<float> out) const;

  // Applies the table's rule to each key's row with the key's own row of `gradients`. The gradient
  // of a key that has no row and gets none is dropped. Gradients of a repeated key are applied one
  // after the other, in the order of the keys.
  void Push(absl::Span<const uint64_t> keys, absl::Span<const float> gradients,
            const PushRates& rates, absl::Time now);

  // Replaces the values of each row by the row's last slot, which must be as long as the values.
  void AssignFromLastSlot();

  // Returns all rows. The caller makes sure that nothing is pushed meanwhile.
  TableRows Save(absl::Time now) const;
  // Replaces all rows by the rows of `parts` whose keys `takes` accepts. Each key occurs once, and
  // CheckRows has passed each part. At the table's memory limit some rows are left out. The caller
  // makes sure that nothing is pushed meanwhile.
  void Load(absl::Span<const TableRows> parts, absl::FunctionRef<bool(uint64_t key)> takes,
            absl::Time now);
  // Checks the types and shapes of saved rows. Errors: DATA_LOSS that names what does not fit the
  // table.
  absl::Status CheckRows(const TableRows& rows) const;

  // Returns the table's state without the clock, which the caller keeps. The caller makes sure that
  // nothing is pushed meanwhile.
  TableState SaveState() const;
  // Sets the state that belongs to the rows; called after Load. With one state, of a table with the
  // same keys, this table develops as that table would; with several states no sight is forgotten.
  // The tensors have the types and shapes of TableState.
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

  // Calls `visit` for each stripe that has keys of the batch, with the stripe and these keys, under
  // the stripe's lock.
  void ForStripes(absl::Span<const uint64_t> keys,
                  absl::FunctionRef<void(RowStripe&, absl::Span<const KeyAt>)> visit) const;
  std::unique_ptr<Batch> TakeBatch() const;
  void ReturnBatch(std::unique_ptr<Batch> batch) const;
  void LoadRow(const TableRows& rows, size_t at, uint32_t now);

  // Rules and kernel are constant after construction.
  const RowRules rules_;
  const std::unique_ptr<UpdateKernel> kernel_;
  // RowRegions synchronises itself.
  RowRegions regions_;
  // The list of stripes is constant after construction, and each stripe has its own lock. The rows
  // of all stripes lie in regions_.
  std::vector<std::unique_ptr<LockedStripe>> stripes_;

  mutable Mutex mutex_;
  // Buffers for the sorted keys of a batch: as many as there were batches at the same time.
  mutable std::vector<std::unique_ptr<Batch>> batches_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace cohort
