#pragma once

// The rows of a slice that is a part of a dynamic table: a RowTable with its time, which goes on
// with the pushes that are applied. The slice's lock is held around all but the making.

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

// The whole content of a slice of a dynamic table.
struct SavedTable {
  TableState state;
  TableRows rows;
};

// The content that a restore brings to such a slice, from any slices that share buckets with it.
struct LoadedTable {
  std::vector<TableState> states;  // at most one per slice
  std::vector<TableRows> rows;
};

// Thread-compatible.
class DynamicRows {
 public:
  // Makes the rows of a layout that SlicesOf has made. Errors: those of RowTable::Create.
  static absl::StatusOr<std::unique_ptr<DynamicRows>> Create(const SliceLayout& layout);

  // Returns the time of the applied pushes: a row that has expired since then is read as it was
  // before it began.
  absl::Time now() const { return clock_.Now(); }
  // Values at such a time in the order of the keys, float32, into memory for just these, at any
  // alignment.
  void Read(absl::Span<const int64_t> keys, absl::Time at, absl::Span<std::byte> out) const;
  // Takes a row of gradient for each key from the cursor. Those of one key are added up first, in
  // this order, and its row is updated once.
  void Push(absl::Span<const int64_t> keys, PayloadCursor& gradient, const PushRates& rates,
            const StepClock::StepTime& time);
  // Makes each row its moving average, the last of its slots.
  void TakeAverages() { table_->AssignFromLastSlot(); }

  SavedTable Save() const;
  // Replaces all rows by those whose keys belong to this slice, and the state.
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
