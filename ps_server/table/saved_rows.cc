// What goes through all rows of a table: Save, CheckRows, Load and AssignFromLastSlot.

#include <algorithm>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "common/base/status.h"
#include "ps_server/table/row_table.h"

namespace cohort {

namespace {

struct Columns {
  int64_t* keys;
  int32_t* uses;
  std::byte* values;
  std::vector<float*> slots;
};

TableRows MakeRows(const RowLayout& layout, size_t count) {
  const auto rows = static_cast<int64_t>(count);
  const auto width = static_cast<int64_t>(layout.width());
  TableRows all{Tensor(DType::kInt64, Shape{rows}),
                Tensor(DType::kInt32, Shape{rows, 2}),
                Tensor(layout.dtype(), Shape{rows, width}),
                {}};
  for (const RowLayout::Slot& slot : layout.slots()) {
    const bool per_row = slot.elements == 1;
    all.slots.push_back(
        Tensor(DType::kFloat32, per_row ? Shape{rows} : Shape{rows, width}));
  }
  return all;
}

Columns ColumnsOf(TableRows& rows) {
  Columns columns{rows.keys.mutable_data<int64_t>(),
                  rows.uses.mutable_data<int32_t>(),
                  rows.values.mutable_raw(),
                  {}};
  for (Tensor& slot : rows.slots) columns.slots.push_back(slot.mutable_data<float>());
  return columns;
}

}  // namespace

TableRows RowTable::Save(absl::Time now) const {
  const uint32_t at = RowTime::At(now);
  size_t count = 0;
  for (const std::unique_ptr<LockedStripe>& stripe : stripes_) {
    MutexLock lock(stripe->mutex);
    stripe->rows.ForEachRow(at, [&](std::byte*) { ++count; });
  }
  const RowLayout& layout = rules_.layout;
  TableRows all = MakeRows(layout, count);
  Columns out = ColumnsOf(all);
  const size_t value_bytes = layout.value_bytes();
  for (const std::unique_ptr<LockedStripe>& stripe : stripes_) {
    MutexLock lock(stripe->mutex);
    stripe->rows.ForEachRow(at, [&](std::byte* row) {
      const RowHeader& header = RowLayout::Header(row);
      *out.keys++ = static_cast<int64_t>(header.key);
      *out.uses++ = RowTime::Age(header.stamp, at);
      *out.uses++ = static_cast<int32_t>(header.uses);
      std::memcpy(out.values, RowLayout::Values(row), value_bytes);
      out.values += value_bytes;
      for (size_t i = 0; i < out.slots.size(); ++i) {
        const RowLayout::Slot& slot = layout.slots()[i];
        std::memcpy(out.slots[i], RowLayout::SlotOf(row, slot), slot.elements * sizeof(float));
        out.slots[i] += slot.elements;
      }
    });
  }
  return all;
}

absl::Status RowTable::CheckRows(const TableRows& rows) const {
  const auto same = [](const Tensor& a, const Tensor& b) {
    return a.dtype() == b.dtype() && a.shape() == b.shape();
  };
  if (rows.keys.dtype() == DType::kInt64 && rows.keys.shape().rank() == 1 &&
      rows.slots.size() == layout().slots().size()) {
    const TableRows like = MakeRows(layout(), static_cast<size_t>(rows.keys.num_elements()));
    if (same(rows.uses, like.uses) && same(rows.values, like.values) &&
        std::equal(rows.slots.begin(), rows.slots.end(), like.slots.begin(), same)) {
      return absl::OkStatus();
    }
  }
  return absl::DataLossError(absl::StrCat("rows of ", rows.values.TypeString(), " and ",
                                          rows.slots.size(), " slots do not fit the table, whose "
                                          "rows are ", DTypeName(layout().dtype()), "[",
                                          layout().width(), "] with ", layout().slots().size()));
}

void RowTable::LoadRow(const TableRows& rows, size_t at, uint32_t now) {
  const auto key = static_cast<uint64_t>(rows.keys.data<int64_t>()[at]);
  const uint64_t hash = RowStripe::HashOf(key);
  LockedStripe& stripe = *stripes_[hash % kStripes];
  MutexLock lock(stripe.mutex);
  std::byte* const row = stripe.rows.Add({hash, key, 0}, now);
  if (row == nullptr) return;
  if (rows.slots.empty()) layout().Fill(key, /*step=*/1, row);
  const int32_t* const uses = rows.uses.data<int32_t>() + 2 * at;
  RowHeader& header = RowLayout::Header(row);
  header.stamp = now - static_cast<uint32_t>(uses[0]);
  header.uses = std::max(static_cast<uint32_t>(uses[1]), 1u);
  const size_t value_bytes = layout().value_bytes();
  std::memcpy(RowLayout::Values(row), rows.values.raw() + at * value_bytes, value_bytes);
  for (size_t i = 0; i < rows.slots.size(); ++i) {
    const RowLayout::Slot& slot = layout().slots()[i];
    std::memcpy(RowLayout::SlotOf(row, slot), rows.slots[i].data<float>() + at * slot.elements,
                slot.elements * sizeof(float));
  }
}

void RowTable::AssignFromLastSlot(absl::Time now) {
  const RowLayout::Slot& slot = layout().slots().back();
  COHORT_CHECK(slot.elements == layout().width(), "a slot of the values' size");
  for (const std::unique_ptr<LockedStripe>& stripe : stripes_) {
    MutexLock lock(stripe->mutex);
    stripe->rows.ForEachRow(RowTime::At(now), [&](std::byte* row) {
      layout().Write(RowLayout::SlotOf(row, slot), row);
    });
  }
}

void RowTable::Load(absl::Span<const TableRows> parts, absl::FunctionRef<bool(uint64_t)> takes,
                    absl::Time now) {
  for (const std::unique_ptr<LockedStripe>& stripe : stripes_) {
    MutexLock lock(stripe->mutex);
    stripe->rows.Clear();
  }
  for (const TableRows& rows : parts) {
    const absl::Span<const int64_t> keys = rows.keys.span<int64_t>();
    for (size_t i = 0; i < keys.size(); ++i) {
      if (takes(static_cast<uint64_t>(keys[i]))) LoadRow(rows, i, RowTime::At(now));
    }
  }
}

}  // namespace cohort
