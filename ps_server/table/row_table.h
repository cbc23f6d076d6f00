#pragma once

// A dynamic embedding table on one ps: rows of 16- or 32-bit floats under 64-bit keys, any of the
// 2^64, without a size that is known beforehand. A row begins with its first push, or that which
// its policy admits (row_policy.h); until then it is read as what it would begin with. That depends
// on (seed, table, key) alone, so neither the order of requests nor the number of ps shows in it.
// With the row live its optimizer slots, in float32.
//
// The table is cut by the keys' hashes into stripes with a lock each. A batch of keys is sorted by
// stripe and takes each lock once; each row is read or changed under its stripe's lock, so nobody
// sees a row half changed, and a batch as a whole is not atomic.

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

// The rates of one push, from the closure.
struct PushRates {
  double learning_rate = 0;
  uint64_t step = 1;  // counts from 1
};

struct RowTableUse {
  size_t rows = 0;
  size_t row_bytes = 0;  // what the rows' memory takes of the system's
  size_t index_bytes = 0;
  size_t payload_bytes = 0;  // bytes of values and slots
  RowCounts counts;
};

// All rows of a table, or of a part of its keys, in any order: the content of a checkpoint. Rows
// that have expired and were not removed yet are among them.
struct TableRows {
  Tensor keys;    // int64[n]: the keys' bits
  Tensor uses;    // int32[n, 2]: RowTime ticks since the last push, pushes
  Tensor values;  // [n, width] of the table's type
  // The slots in the order of the rule: float32[n, width] or float32[n]. Empty for Load: each row
  // gets the slots of a new row, with the values that it would begin with.
  std::vector<Tensor> slots;
};

// Thread-safe.
class RowTable {
 public:
  static constexpr size_t kStripes = static_cast<size_t>(TableState::kStripes);

  // Errors: as RowLayout::Make and CheckRowPolicy, and INVALID_ARGUMENT for a rule that has no
  // kernel.
  static absl::StatusOr<std::unique_ptr<RowTable>> Create(const RowTableOptions& options);
  ~RowTable();

  const RowLayout& layout() const { return rules_.layout; }

  // Values in the order of the keys, which may repeat. `out` has the table's width for each key.
  void Pull(absl::Span<const uint64_t> keys, absl::Time now, absl::Span<float> out) const;

  // Applies the table's rule to the row of each key with its own row of `gradients`; the gradient
  // of a key that has no row and gets none is dropped. Repeated keys are applied one after the
  // other, in this order.
  void Push(absl::Span<const uint64_t> keys, absl::Span<const float> gradients,
            const PushRates& rates, absl::Time now);

  // Sets the values of each row to its last slot, which is as long.
  void AssignFromLastSlot();

  // Returns all rows. Nothing is pushed meanwhile.
  TableRows Save(absl::Time now) const;
  // Replaces all rows by those of `parts` whose keys `takes` accepts; each key occurs once, and
  // CheckRows has passed each part. At the table's limit of memory some are left out. Nothing is
  // pushed meanwhile.
  void Load(absl::Span<const TableRows> parts, absl::FunctionRef<bool(uint64_t key)> takes,
            absl::Time now);
  // Errors: DATA_LOSS naming what does not fit the table.
  absl::Status CheckRows(const TableRows& rows) const;

  // Returns the state without the clock, which is the caller's. Nothing is pushed meanwhile.
  TableState SaveState() const;
  // Sets the state; called after Load. With one state of a table of the same keys this table goes
  // on as that one does; with several states no sight is forgotten. The tensors are of TableState's
  // types and shapes.
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

  // Calls `visit` with each stripe that has keys of the batch, and those keys, under its lock.
  void ForStripes(absl::Span<const uint64_t> keys,
                  absl::FunctionRef<void(RowStripe&, absl::Span<const KeyAt>)> visit) const;
  std::unique_ptr<Batch> TakeBatch() const;
  void ReturnBatch(std::unique_ptr<Batch> batch) const;
  void LoadRow(const TableRows& rows, size_t at, uint32_t now);

  // Constant after construction.
  const RowRules rules_;
  const std::unique_ptr<UpdateKernel> kernel_;
  // Synchronises itself.
  RowRegions regions_;
  // Constant after construction; each synchronises itself. They have their rows in regions_.
  std::vector<std::unique_ptr<LockedStripe>> stripes_;

  mutable Mutex mutex_;
  // Buffers for sorted keys, one for each batch that was ever under way at the same time.
  mutable std::vector<std::unique_ptr<Batch>> batches_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace cohort
