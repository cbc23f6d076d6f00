#include "worker/step/row_lookup.h"

#include <algorithm>
#include <array>
#include <bit>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/status.h"
#include "common/tensor/slice_spec.h"

namespace cohort {

namespace {

// The largest number of rows per id at which FindByMarks() is used, which visits all rows of the
// table. For larger tables the ids are sorted.
constexpr size_t kMarksPerId = 4;

// The largest number of ids in one lookup. So every position in the list of rows fits an int32,
// which is the type of the positions for an int32 column.
constexpr int64_t kIdsMax = std::numeric_limits<int32_t>::max();

// One id of a column, with its sort key.
struct Entry {
  uint64_t order = 0;  // sort key of the row that the id names; no two rows have the same key
  uint32_t at = 0;     // index of the id among the ids of all columns
};

// The table whose rows are looked up.
struct Table {
  const std::string& name;
  int64_t num_rows = 0;
  bool by_keys = false;  // true for a dynamic table, in which every id is a valid key
};

// Returns the error for `id`, which is not a row of the table. The error names the example that has
// the id at index `position` of the column.
absl::Status NoRow(const Table& table, const IdColumn& column, size_t position, int64_t id) {
  const int64_t examples = std::max<int64_t>(column.ids->shape().dim(0), 1);
  const int64_t per_example = std::max<int64_t>(column.ids->num_elements() / examples, 1);
  const int64_t row = static_cast<int64_t>(position) / per_example;
  return absl::InvalidArgumentError(absl::StrCat(
      "id ", id, " of '", column.name, "' in ",
      column.example_name ? column.example_name(row) : absl::StrCat("row ", row, " of the batch"),
      " is not a row of '", table.name, "', which has ", table.num_rows,
      ": raise input_dim or fix the data"));
}

// Adds the ids of one column to `entries`; `first` is the index of the column's first id among the
// ids of all columns. For a dynamic table, also stores the ids in `keys`. Errors: INVALID_ARGUMENT
// for an id that is not a row of the table.
template <typename T>
absl::Status AddIds(const Table& table, const IdColumn& column, uint32_t first,
                    std::vector<int64_t>& keys, std::vector<Entry>& entries) {
  const absl::Span<const T> ids = column.ids->span<T>();
  size_t count = entries.size();
  entries.resize(count + ids.size());
  for (size_t i = 0; i < ids.size(); ++i) {
    const int64_t id = ids[i];
    // An id that names no row gets no entry, so its position stays -1.
    if (id < 0 && column.negative_is_none) continue;
    const uint32_t at = first + static_cast<uint32_t>(i);
    if (table.by_keys) {
      entries[count++] = {KeyOrder(id), at};
      keys[at] = id;
      continue;
    }
    if (id < 0 || id >= table.num_rows) return NoRow(table, column, i, id);
    entries[count++] = {static_cast<uint64_t>(id), at};
  }
  entries.resize(count);
  return absl::OkStatus();
}

// Returns the positions as a tensor with the type T of the column's ids. Every position fits an
// int32, because a lookup has at most kIdsMax ids.
template <typename T>
Tensor PositionsOf(const Shape& shape, absl::Span<const int64_t> positions) {
  Tensor tensor(DTypeOf<T>::value, shape);
  std::transform(positions.begin(), positions.end(), tensor.mutable_data<T>(),
                 [](int64_t position) { return static_cast<T>(position); });
  return tensor;
}

// Sorts the entries with a radix sort of 11 bits per pass. The number of passes follows from the
// highest bit that any sort key has.
void Sort(std::vector<Entry>& entries) {
  constexpr int kBits = 11;
  constexpr size_t kDigits = size_t{1} << kBits;
  uint64_t all = 0;
  for (const Entry& entry : entries) all |= entry.order;
  std::vector<Entry> sorted(entries.size());
  // The sort keys of a small table have few bits, so one or two passes of the radix sort suffice.
  const auto bits = static_cast<int>(std::bit_width(all));
  for (int shift = 0; shift < bits; shift += kBits) {
    std::array<uint32_t, kDigits> next{};
    const auto digit = [&](const Entry& entry) {
      return static_cast<size_t>(entry.order >> shift) & (kDigits - 1);
    };
    for (const Entry& entry : entries) ++next[digit(entry)];
    uint32_t sum = 0;
    // Turns the count of each digit into the index of the first entry with this digit. The sort is
    // stable: entries with equal digits keep their order.
    for (uint32_t& place : next) sum += std::exchange(place, sum);
    for (const Entry& entry : entries) sorted[next[digit(entry)]++] = entry;
    entries.swap(sorted);
  }
}

// Appends the rows that the entries name to `rows`, and sets the position of each entry's id. Marks
// the rows in an array of all rows of the table, which is cheaper than sorting if the table is
// small.
void FindByMarks(size_t num_rows, absl::Span<const Entry> entries, std::vector<int64_t>& rows,
                 std::vector<int64_t>& positions) {
  std::vector<uint32_t> marks(num_rows, 0);
  for (const Entry& entry : entries) marks[entry.order] = 1;
  for (size_t row = 0; row < num_rows; ++row) {
    if (marks[row] == 0) continue;
    // The mark of a named row is replaced by the row's position, which the last loop reads.
    marks[row] = static_cast<uint32_t>(rows.size());
    rows.push_back(static_cast<int64_t>(row));
  }
  for (const Entry& entry : entries) positions[entry.at] = marks[entry.order];
}

absl::StatusOr<RowLookup> LookUp(const Table& table, absl::Span<const IdColumn> columns) {
  RowLookup lookup;
  std::vector<Entry> entries;
  std::vector<int64_t> first;  // index of each column's first id among the ids of all columns
  int64_t count = 0;
  for (const IdColumn& column : columns) {
    first.push_back(count);
    count += column.ids->num_elements();
    if (column.ids->shape().rank() < 1 || count > kIdsMax) {
      return absl::InvalidArgumentError(
          absl::StrCat("'", column.name, "' is ", column.ids->TypeString(), ": ids of '",
                       table.name, "' come in batches of fewer than 2^31"));
    }
  }
  entries.reserve(static_cast<size_t>(count));
  std::vector<int64_t> keys(table.by_keys ? static_cast<size_t>(count) : 0);
  for (size_t i = 0; i < columns.size(); ++i) {
    const auto offset = static_cast<uint32_t>(first[i]);
    const DType dtype = columns[i].ids->dtype();
    if (dtype == DType::kInt32) {
      RETURN_IF_ERROR(AddIds<int32_t>(table, columns[i], offset, keys, entries));
    } else if (dtype == DType::kInt64) {
      RETURN_IF_ERROR(AddIds<int64_t>(table, columns[i], offset, keys, entries));
    } else {
      return absl::InvalidArgumentError(absl::StrCat("ids '", columns[i].name, "' of '", table.name,
                                                     "' are ", DTypeName(dtype),
                                                     ", not int32 or int64"));
    }
  }
  std::vector<int64_t> positions(static_cast<size_t>(count), -1);
  const auto num_rows = static_cast<size_t>(table.num_rows);
  // FindByMarks() visits every row of the table, so it is used only if the table is small against
  // the number of ids.
  if (!table.by_keys && num_rows / kMarksPerId < entries.size()) {
    FindByMarks(num_rows, entries, lookup.rows, positions);
  } else {
    Sort(entries);
    // Equal ids are adjacent after the sort, so each row is appended once.
    for (const Entry& entry : entries) {
      const int64_t id = table.by_keys ? keys[entry.at] : static_cast<int64_t>(entry.order);
      if (lookup.rows.empty() || lookup.rows.back() != id) lookup.rows.push_back(id);
      positions[entry.at] = static_cast<int64_t>(lookup.rows.size()) - 1;
    }
  }
  for (size_t i = 0; i < columns.size(); ++i) {
    const Tensor& ids = *columns[i].ids;
    const absl::Span<const int64_t> own = absl::MakeConstSpan(positions).subspan(
        static_cast<size_t>(first[i]), static_cast<size_t>(ids.num_elements()));
    lookup.positions.push_back(ids.dtype() == DType::kInt32
                                   ? PositionsOf<int32_t>(ids.shape(), own)
                                   : PositionsOf<int64_t>(ids.shape(), own));
  }
  return lookup;
}

}  // namespace

absl::StatusOr<RowLookup> LookUpRows(const std::string& table, int64_t num_rows,
                                     absl::Span<const IdColumn> columns) {
  return LookUp({table, num_rows, false}, columns);
}

absl::StatusOr<RowLookup> LookUpKeys(const std::string& table, absl::Span<const IdColumn> columns) {
  return LookUp({table, 0, true}, columns);
}

}  // namespace cohort
