#pragma once

// The rows of a slice that is a part of a dynamic table: a RowTable with the time of this ps. The
// slice's lock is held around all but the making.

#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/base/clock.h"
#include "ps_server/payload_cursor.h"
#include "ps_server/slice_layout.h"
#include "ps_server/table/row_table.h"

namespace cohort {

// Thread-compatible.
class DynamicRows {
 public:
  // Of a layout that SlicesOf has made. `clock` outlives this. Errors: as RowTable::Create.
  static absl::StatusOr<std::unique_ptr<DynamicRows>> Create(const SliceLayout& layout,
                                                             const Clock& clock);

  // Values in the order of the keys, float32, into memory for just these, at any alignment.
  void Read(absl::Span<const int64_t> keys, absl::Span<std::byte> out) const;
  // Takes a row of gradient for each key from the cursor. Those of one key are added up first, in
  // this order, and its row is updated once.
  void Push(absl::Span<const int64_t> keys, PayloadCursor& gradient, const PushRates& rates);
  // Each row becomes its moving average, which is the last of its slots.
  void TakeAverages() { table_->AssignFromLastSlot(clock_.Now()); }

  TableRows Save() const { return table_->Save(clock_.Now()); }
  // Replaces all rows by those of the parts whose keys are of this slice.
  void Load(absl::Span<const TableRows> parts);

  RowTableUse Use() const { return table_->Use(); }

 private:
  DynamicRows(const SliceLayout& layout, const Clock& clock, std::unique_ptr<RowTable> table)
      : layout_(layout), clock_(clock), table_(std::move(table)) {}

  const SliceLayout layout_;
  const Clock& clock_;
  const std::unique_ptr<RowTable> table_;
};

}  // namespace cohort
