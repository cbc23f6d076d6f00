#pragma once

// The rows of a slice that belongs to a dynamic table: a RowTable and its clock, which advances
// with the pushes that are applied. The caller holds the slice's lock around every method except
// Create.

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

// The content that a restore brings to a dynamic table's slice, from any saved slices that share
// buckets with it.
struct LoadedTable {
  std::vector<TableState> states;  // at most one for each saved slice
  std::vector<TableRows> rows;
};

// The rows and the clock of one slice of a dynamic table. Thread-compatible.
class DynamicRows {
 public:
  // Makes the empty rows of a slice whose layout comes from SlicesOf. Errors: those of
  // RowTable::Create.
  static absl::StatusOr<std::unique_ptr<DynamicRows>> Create(const SliceLayout& layout);

  // Returns the table's time, which applied pushes advance. A row that has expired by this time is
  // read as if it had never been trained.
  absl::Time now() const { return clock_.Now(); }
  // Copies the rows of `keys`, as they are at time `at`, as float32 into `out`, in the order of the
  // keys. `out` has exactly their size and may have any alignment.
  void Read(absl::Span<const int64_t> keys, absl::Time at, absl::Span<std::byte> out) const;
  // Takes a row of gradient for each key from the cursor. The gradients of a key that occurs more
  // than once are added up first, in the order of the keys, and the key's row is updated once.
  void Push(absl::Span<const int64_t> keys, PayloadCursor& gradient, const PushRates& rates,
            const StepClock::StepTime& time);
  // Replaces each row by its moving average, which is the last of the row's slots.
  void TakeAverages() { table_->AssignFromLastSlot(); }

  SavedTable Save() const;
  // Replaces all rows by the loaded rows whose keys belong to this slice, and replaces the clock
  // and the table's state.
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
