#include "ps_server/checkpoint/table_parts.h"

#include <algorithm>
#include <map>

#include "absl/functional/function_ref.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "common/base/check.h"
#include "common/base/status.h"
#include "common/checkpoint/bundle.h"
#include "common/tensor/slice_spec.h"

namespace cohort {

namespace {

constexpr char kKeys[] = "keys";
constexpr char kClock[] = "clock";
constexpr char kStripes[] = "stripes";
constexpr char kSights[] = "sights";
constexpr char kCounts[] = "counts";
constexpr int64_t kClockFields = 3;
constexpr int64_t kCountsFields = 3;

std::string TableName(const SliceLayout& layout) {
  return absl::StrCat(layout.variable, kTableRowsInfix);
}

std::string SliceName(const SliceLayout& layout, RowRange buckets) {
  return absl::StrCat(TableName(layout), buckets.begin, "-", buckets.begin + buckets.count, "/");
}

std::string PartName(const SliceLayout& layout, RowRange buckets, int64_t part) {
  return absl::StrCat(SliceName(layout, buckets), part, "/");
}

// One tensor of a slice's state or of a part. `name` is the last component of the tensor's name in
// the checkpoint, after the prefix of the slice or of the part.
struct PartColumn {
  std::string name;
  BundleTensor tensor;
};

// Which of the optional tensors of a slice's state exist.
struct StateParts {
  bool sights = false;  // counts of seen keys without a row; absent if the slice has seen no key
  bool counts = false;  // counts of dropped gradients, expired rows and evicted rows
};

// Returns the names, types and shapes of the tensors in a slice's state.
std::vector<PartColumn> StateColumns(const StateParts& parts) {
  std::vector<PartColumn> columns = {{kClock, {DType::kInt64, Shape{kClockFields}}},
                                     {kStripes, {DType::kInt64, TableState::StripesShape()}}};
  if (parts.sights) columns.push_back({kSights, {DType::kUint8, TableState::SightsShape()}});
  if (parts.counts) columns.push_back({kCounts, {DType::kInt64, Shape{kCountsFields}}});
  return columns;
}

std::string SlotColumn(const SliceLayout& layout, const SlotSpec& slot) {
  return absl::StrCat(layout.rule.op(), "/", slot.name);
}

// Returns the names, types and shapes of the tensors in a part with `rows` rows. Slots for which
// `takes` returns false are left out.
std::vector<PartColumn> ColumnsOf(
    const SliceLayout& layout, int64_t rows,
    absl::FunctionRef<bool(const SlotSpec& slot, const std::string& name)> takes) {
  const auto width = static_cast<int64_t>(layout.row_width());
  std::vector<PartColumn> columns = {{kKeys, {DType::kInt64, Shape{rows}}},
                                     {"uses", {DType::kInt32, Shape{rows, 2}}},
                                     {"values", {layout.dynamic->row_dtype, Shape{rows, width}}}};
  for (const SlotSpec& slot : layout.rule_spec.slots) {
    const std::string name = SlotColumn(layout, slot);
    if (!takes(slot, name)) continue;
    columns.push_back({name, {DType::kFloat32, RowLayout::SlotShape(slot.per_row, rows, width)}});
  }
  return columns;
}

// Returns the maximum number of rows in a part, so that the part's longest tensor has at most
// kPartBytesMax bytes.
int64_t PartRows(const SliceLayout& layout) {
  const auto width = static_cast<int64_t>(layout.row_width() * sizeof(float));
  return std::max<int64_t>(kPartBytesMax / std::max<int64_t>(width, sizeof(int64_t)), 1);
}

struct StoredPart {
  int64_t number = 0;
  int64_t rows = 0;
};
// The saved slices of a dynamic table, with their parts. The key is the slice's first bucket and
// the bucket after its last.
using StoredSlices = std::map<std::pair<int64_t, int64_t>, std::vector<StoredPart>>;

// Finds the saved slices of a table and their parts by the names of the parts' "keys" tensors.
StoredSlices FindSlices(const BundleTensors& tensors, const SliceLayout& layout) {
  StoredSlices slices;
  const std::string table = TableName(layout);
  for (auto it = tensors.lower_bound(table);
       it != tensors.end() && absl::StartsWith(it->first, table); ++it) {
    const std::vector<std::string> path =
        absl::StrSplit(absl::StripPrefix(it->first, table), absl::ByAnyChar("-/"));
    // The path of a "keys" tensor is: first bucket, bucket after the last, number of the part,
    // "keys". All other tensors, for example those of a slice's state, are skipped.
    if (path.size() != 4 || path[3] != kKeys || it->second.shape.rank() != 1) continue;
    std::pair<int64_t, int64_t> buckets;
    StoredPart part;
    if (!absl::SimpleAtoi(path[0], &buckets.first) || !absl::SimpleAtoi(path[1], &buckets.second) ||
        !absl::SimpleAtoi(path[2], &part.number)) {
      continue;
    }
    part.rows = it->second.shape.dim(0);
    slices[buckets].push_back(part);
  }
  for (auto& [buckets, parts] : slices) {
    std::sort(parts.begin(), parts.end(),
              [](const StoredPart& a, const StoredPart& b) { return a.number < b.number; });
  }
  return slices;
}

// Checks that the saved slices cover every key bucket once, and that no slice lacks a part.
absl::Status CheckWhole(const StoredSlices& slices, const RestoreSource& source,
                        const SliceLayout& layout) {
  if (slices.empty()) {
    return absl::NotFoundError(absl::StrCat("checkpoint ", source.prefix,
                                            " has no rows of the dynamic table '", layout.variable,
                                            "'; is it a checkpoint of another model?"));
  }
  int64_t covered = 0;
  bool whole = true;
  for (const auto& [buckets, parts] : slices) {
    // Part numbers begin at 0, so the last part's number gives the number of parts that must exist.
    whole = whole && buckets.first == covered && buckets.second > covered &&
            parts.back().number + 1 == static_cast<int64_t>(parts.size());
    covered = buckets.second;
  }
  if (whole && covered == kKeyBuckets) return absl::OkStatus();
  return absl::DataLossError(absl::StrCat(
      "checkpoint ", source.prefix, " lacks parts of the dynamic table '", layout.variable, "'"));
}

// Appends the tensors of a slice's state. A uint64 is saved as the int64 with the same bits.
void AddState(const std::string& name, const TableState& state, std::vector<PartTensor>& tensors) {
  const auto bits = [](uint64_t number) { return static_cast<int64_t>(number); };
  const StepClock& clock = state.clock;
  std::vector<Tensor> columns = {
      Tensor::FromVector<int64_t>(
          {bits(clock.ms), bits(clock.last.ms), bits(clock.last.coordinator)}, {kClockFields}),
      state.stripes};
  const bool sights = state.sights.num_elements() > 0;
  if (sights) columns.push_back(state.sights);
  const RowCounts& counts = state.counts;
  columns.push_back(Tensor::FromVector<int64_t>(
      {bits(counts.dropped), bits(counts.expired), bits(counts.evicted)}, {kCountsFields}));
  const std::vector<PartColumn> described = StateColumns({sights, true});
  for (size_t i = 0; i < columns.size(); ++i) {
    tensors.push_back({absl::StrCat(name, described[i].name), columns[i]});
  }
}

TableState StateOf(const Tensor& clock, const Tensor& stripes) {
  const absl::Span<const int64_t> fields = clock.span<int64_t>();
  const auto bits = [&](size_t i) { return static_cast<uint64_t>(fields[i]); };
  return {{bits(0), {bits(1), bits(2)}}, stripes, Tensor(DType::kUint8, Shape{0})};
}

RowCounts CountsOf(const Tensor& counts) {
  const absl::Span<const int64_t> fields = counts.span<int64_t>();
  return {static_cast<uint64_t>(fields[0]), static_cast<uint64_t>(fields[1]),
          static_cast<uint64_t>(fields[2])};
}

// Checks that the checkpoint has the tensor `wanted` of a part or of a state, with the same type
// and shape.
absl::Status CheckColumn(const BundleTensors& tensors, const RestoreSource& source,
                         const WantedRows& wanted) {
  const auto found = tensors.find(wanted.tensor);
  if (found == tensors.end()) {
    return absl::NotFoundError(absl::StrCat("checkpoint ", source.prefix, " has no tensor '",
                                            wanted.tensor,
                                            "'; was it made with another optimizer?"));
  }
  if (found->second.dtype == wanted.dtype && found->second.shape == wanted.full_shape) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      absl::StrCat("checkpoint ", source.prefix, " has '", wanted.tensor, "' as ",
                   DTypeName(found->second.dtype), found->second.shape.ToString(),
                   ", the job's is ", DTypeName(wanted.dtype), wanted.full_shape.ToString()));
}

}  // namespace

std::vector<PartTensor> TablePartsOf(const SliceLayout& layout, const SavedTable& table) {
  std::vector<PartTensor> tensors;
  AddState(SliceName(layout, layout.rows), table.state, tensors);
  const TableRows& rows = table.rows;
  const int64_t count = rows.keys.num_elements();
  const int64_t in_part = PartRows(layout);
  std::vector<Tensor> columns = {rows.keys, rows.uses, rows.values};
  columns.insert(columns.end(), rows.slots.begin(), rows.slots.end());
  // A slice without rows has one empty part, by which FindSlices later finds the slice.
  for (int64_t part = 0, begin = 0; part == 0 || begin < count; ++part, begin += in_part) {
    const int64_t taken = std::min(in_part, count - begin);
    const std::string name = PartName(layout, layout.rows, part);
    const std::vector<PartColumn> described =
        ColumnsOf(layout, taken, [](const SlotSpec&, const std::string&) { return true; });
    COHORT_CHECK(described.size() == columns.size(), "the table has the slots of its rule");
    for (size_t i = 0; i < columns.size(); ++i) {
      tensors.push_back({absl::StrCat(name, described[i].name), columns[i].Rows(begin, taken)});
      COHORT_CHECK(tensors.back().value.shape() == described[i].tensor.shape,
                   "a column is saved in the shape in which it is read");
    }
  }
  return tensors;
}

absl::StatusOr<std::vector<WantedRows>> PlanTableParts(const BundleTensors& tensors,
                                                       const RestoreSource& source,
                                                       const SliceLayout& layout) {
  const StoredSlices slices = FindSlices(tensors, layout);
  RETURN_IF_ERROR(CheckWhole(slices, source, layout));
  std::vector<WantedRows> plan;
  for (const auto& [buckets, parts] : slices) {
    const RowRange range = {buckets.first, buckets.second - buckets.first};
    // A saved slice is read only if its range of buckets overlaps that of `layout`: each range
    // begins before the other ends.
    const bool shares =
        range.begin < layout.rows.begin + layout.rows.count && layout.rows.begin < buckets.second;
    if (!shares) continue;
    const auto add = [&](const std::string& name,
                         const std::vector<PartColumn>& columns) -> absl::Status {
      for (const PartColumn& column : columns) {
        plan.push_back({absl::StrCat(name, column.name),
                        column.tensor.dtype,
                        column.tensor.shape,
                        {0, column.tensor.shape.dim(0)}});
        RETURN_IF_ERROR(CheckColumn(tensors, source, plan.back()));
      }
      return absl::OkStatus();
    };
    const std::string name = SliceName(layout, range);
    // The counts of seen keys ("sights") were saved only if the slice had seen a key.
    const bool sights = tensors.count(absl::StrCat(name, kSights)) > 0;
    // Counts go on within a job, which a cut belongs to; a job that begins from a checkpoint counts
    // anew. Of several slices that a saved slice is cut into, the first one takes its counts.
    // Checkpoints of earlier versions have no counts.
    const bool counts = source.applied && range.begin >= layout.rows.begin &&
                        tensors.count(absl::StrCat(name, kCounts)) > 0;
    RETURN_IF_ERROR(add(name, StateColumns({sights, counts})));
    for (const StoredPart& part : parts) {
      const std::string of_part = PartName(layout, range, part.number);
      const auto takes = [&](const SlotSpec& slot, const std::string& column) {
        return TakesSlot(tensors, source, slot, absl::StrCat(of_part, column));
      };
      RETURN_IF_ERROR(add(of_part, ColumnsOf(layout, part.rows, takes)));
    }
  }
  return plan;
}

LoadedTable JoinTableParts(const RestoreSource& source, const SliceLayout& layout,
                           absl::Span<const WantedRows> plan, absl::Span<Tensor> tensors) {
  COHORT_CHECK(tensors.size() == plan.size(), "the tensors of the plan");
  const auto width = static_cast<int64_t>(layout.row_width());
  const auto is = [&](size_t at, absl::string_view name) {
    return at < plan.size() && absl::EndsWith(plan[at].tensor, absl::StrCat("/", name));
  };
  LoadedTable table;
  for (size_t at = 0; at < tensors.size();) {
    // The plan lists for each saved slice the tensors clock, stripes and (if there are any) sights
    // and counts, and then the slice's parts.
    if (is(at, kClock)) {
      table.states.push_back(StateOf(tensors[at], tensors[at + 1]));
      at += 2;
      if (is(at, kSights)) table.states.back().sights = std::move(tensors[at++]);
      if (is(at, kCounts)) table.states.back().counts = CountsOf(tensors[at++]);
      continue;
    }
    COHORT_CHECK(is(at, kKeys) && at + 3 <= tensors.size(),
                 "keys are followed by the other tensors of their part");
    TableRows& part = table.rows.emplace_back();
    part.keys = std::move(tensors[at]);
    part.uses = std::move(tensors[at + 1]);
    part.values = std::move(tensors[at + 2]);
    at += 3;
    for (const SlotSpec& slot : layout.rule_spec.slots) {
      if (is(at, SlotColumn(layout, slot))) {
        part.slots.push_back(std::move(tensors[at++]));
      } else if (source.new_slots) {
        const int64_t rows = part.keys.num_elements();
        part.slots.push_back(
            NewSlot(slot, RowLayout::SlotShape(slot.per_row, rows, width), part.values));
      }
    }
  }
  return table;
}

}  // namespace cohort
