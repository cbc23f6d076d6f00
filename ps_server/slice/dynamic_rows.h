#pragma once

// The rows of one slice of a dynamic table, and the table's clock, which advances when a push is
// applied. The caller holds the slice's lock during every call except Create.

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "ps_server/slice/payload_cursor.h"
#include "ps_server/slice/slice_layout.h"
#include "ps_server/table/row_table.h"
#include "ps_server/table/table_state.h"

namespace cohort {

// The whole content of a dynamic table's slice, as a snapshot saves it.
struct SavedTable {
  TableState state;
  TableRows rows;
};

// The content that a restore gives to a dynamic table's slice: the states and rows of all saved
// slices that share key buckets with this slice.
struct LoadedTable {
  std::vector<TableState> states;  // states of the saved slices, at most one for each
  std::vector<TableRows> rows;
};

// The rows and the clock of one slice of a dynamic table. Thread-compatible.
class DynamicRows {
 public:
  // Makes the rows and the clock of a new slice, which has no rows yet. `layout` was made by
  // SlicesOf (slice_layout.h). Errors: those of RowTable::Create.
  static absl::StatusOr<std::unique_ptr<DynamicRows>> Create(const SliceLayout& layout);

  // Returns the table's present time, which advances when pushes are applied. A row that has
  // expired by this time is treated as if it had never existed.
  absl::Time now() const { return clock_.Now(); }
  // Copies the values of the keys' rows to `out` as float32, in the order of the keys. A key whose
  // row is missing, or has expired by time `at`, is read as the initial values of its row. `out`
  // has exactly the size of these values and may have any alignment.
  void Read(absl::Span<const int64_t> keys, absl::Time at, absl::Span<std::byte> out) const;
  // Applies a push: reads from `gradient` one row of gradient for each key, and updates the keys'
  // rows. If a key is repeated, its gradients are first added up in the order in which they occur,
  // and its row is updated once.
  void Push(absl::Span<const int64_t> keys, PayloadCursor& gradient, const PushRates& rates,
            const StepClock::StepTime& time);
  // Replaces the values of each row by the moving average of these values, which is the last slot
  // of the row.
  void TakeAverages() { table_->AssignFromLastSlot(); }

  SavedTable Save() const;
  // Replaces all rows, the clock and the table's state by those in `loaded`. Loaded rows whose keys
  // do not belong to this slice are left out.
  void Load(const LoadedTable& loaded);

  RowTableUse Use() const { return table_->Use(); }

 private:
  DynamicRows(const SliceLayout& layout, std::unique_ptr<RowTable> table)
      : layout_(layout), table_(std::move(table)) {}

  const SliceLayout layout_;
  const std::unique_ptr<RowTable> table_;
  StepClock clock_;
};

}  // namespace cohort
