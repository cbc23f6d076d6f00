#include "ps_server/table_parts.h"

#include <algorithm>
#include <map>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "common/base/check.h"
#include "common/base/status.h"
#include "common/checkpoint/shard_layout.h"
#include "common/tensor/key_bucket.h"

namespace cohort {

namespace {

constexpr char kKeys[] = "keys";

std::string TableName(const SliceLayout& layout) {
  return absl::StrCat(layout.variable, kTableRowsInfix);
}

std::string PartName(const SliceLayout& layout, RowRange buckets, int64_t part) {
  return absl::StrCat(TableName(layout), buckets.begin, "-", buckets.begin + buckets.count, "/",
                      part, "/");
}

bool WithSlots(const RestoreSource& source) { return source.slots || source.applied; }

// What `rows` rows have, under their names within a part.
struct PartColumn {
  std::string name;
  BundleTensor tensor;
};
std::vector<PartColumn> ColumnsOf(const SliceLayout& layout, int64_t rows, bool slots) {
  const auto width = static_cast<int64_t>(layout.row_width());
  std::vector<PartColumn> columns = {
      {kKeys, {DType::kInt64, Shape{rows}}},
      {"uses", {DType::kInt32, Shape{rows, 2}}},
      {"values", {layout.dynamic->row_dtype, Shape{rows, width}}}};
  if (!slots) return columns;
  for (const SlotSpec& slot : layout.rule_spec.slots) {
    columns.push_back({absl::StrCat(layout.rule.op(), "/", slot.name),
                       {DType::kFloat32, slot.per_row ? Shape{rows} : Shape{rows, width}}});
  }
  return columns;
}

int64_t PartRows(const SliceLayout& layout) {
  const auto width = static_cast<int64_t>(layout.row_width() * sizeof(float));
  return std::max<int64_t>(kPartBytesMax / std::max<int64_t>(width, sizeof(int64_t)), 1);
}

struct StoredPart {
  int64_t number = 0;
  int64_t rows = 0;
};
// By the first bucket and the one behind the last.
using StoredSlices = std::map<std::pair<int64_t, int64_t>, std::vector<StoredPart>>;

// The parts of a table, by the names of their keys.
StoredSlices FindSlices(const BundleTensors& tensors, const SliceLayout& layout) {
  StoredSlices slices;
  const std::string table = TableName(layout);
  for (auto it = tensors.lower_bound(table);
       it != tensors.end() && absl::StartsWith(it->first, table); ++it) {
    const std::vector<std::string> path =
        absl::StrSplit(absl::StripPrefix(it->first, table), absl::ByAnyChar("-/"));
    if (path.size() != 4 || path[3] != kKeys || it->second.shape.rank() != 1) continue;
    std::pair<int64_t, int64_t> buckets;
    StoredPart part;
    if (!absl::SimpleAtoi(path[0], &buckets.first) ||
        !absl::SimpleAtoi(path[1], &buckets.second) || !absl::SimpleAtoi(path[2], &part.number)) {
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

absl::Status CheckWhole(const StoredSlices& slices, const RestoreSource& source,
                        const SliceLayout& layout) {
  if (slices.empty()) {
    return absl::NotFoundError(
        absl::StrCat("checkpoint ", source.prefix, " has no rows of the dynamic table '",
                     layout.variable, "'; is it a checkpoint of another model?"));
  }
  int64_t covered = 0;
  bool whole = true;
  for (const auto& [buckets, parts] : slices) {
    whole = whole && buckets.first == covered && buckets.second > covered &&
            parts.back().number + 1 == static_cast<int64_t>(parts.size());
    covered = buckets.second;
  }
  if (whole && covered == kKeyBuckets) return absl::OkStatus();
  return absl::DataLossError(absl::StrCat("checkpoint ", source.prefix,
                                          " has not all parts of the dynamic table '",
                                          layout.variable, "'"));
}

// Finds a column of the part.
absl::Status CheckColumn(const BundleTensors& tensors, const RestoreSource& source,
                         const WantedRows& wanted) {
  const auto found = tensors.find(wanted.tensor);
  if (found == tensors.end()) {
    return absl::NotFoundError(
        absl::StrCat("checkpoint ", source.prefix, " has no tensor '", wanted.tensor,
                     "'; was it made with another optimizer?"));
  }
  if (found->second.dtype == wanted.dtype && found->second.shape == wanted.full_shape) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "checkpoint ", source.prefix, " has '", wanted.tensor, "' as ",
      DTypeName(found->second.dtype), found->second.shape.ToString(), ", the job's is ",
      DTypeName(wanted.dtype), wanted.full_shape.ToString()));
}

}  // namespace

std::vector<PartTensor> TablePartsOf(const SliceLayout& layout, const TableRows& rows) {
  const int64_t count = rows.keys.num_elements();
  const int64_t in_part = PartRows(layout);
  std::vector<Tensor> columns = {rows.keys, rows.uses, rows.values};
  columns.insert(columns.end(), rows.slots.begin(), rows.slots.end());
  std::vector<PartTensor> tensors;
  for (int64_t part = 0, begin = 0; part == 0 || begin < count; ++part, begin += in_part) {
    const int64_t taken = std::min(in_part, count - begin);
    const std::string name = PartName(layout, layout.rows, part);
    const std::vector<PartColumn> described = ColumnsOf(layout, taken, /*slots=*/true);
    COHORT_CHECK(described.size() == columns.size(), "the slots of the rule");
    for (size_t i = 0; i < columns.size(); ++i) {
      tensors.push_back({absl::StrCat(name, described[i].name), columns[i].Rows(begin, taken)});
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
    const bool shares = range.begin < layout.rows.begin + layout.rows.count &&
                        layout.rows.begin < buckets.second;
    if (!shares) continue;
    for (const StoredPart& part : parts) {
      const std::string name = PartName(layout, range, part.number);
      for (PartColumn& column : ColumnsOf(layout, part.rows, WithSlots(source))) {
        plan.push_back({absl::StrCat(name, column.name), column.tensor.dtype,
                        column.tensor.shape, {0, part.rows}});
        RETURN_IF_ERROR(CheckColumn(tensors, source, plan.back()));
      }
    }
  }
  return plan;
}

std::vector<TableRows> JoinTableParts(const RestoreSource& source, const SliceLayout& layout,
                                      absl::Span<Tensor> tensors) {
  const size_t slots = WithSlots(source) ? layout.rule_spec.slots.size() : 0;
  const size_t columns = 3 + slots;
  COHORT_CHECK(tensors.size() % columns == 0, "whole parts");
  std::vector<TableRows> parts;
  for (size_t at = 0; at < tensors.size(); at += columns) {
    TableRows& part = parts.emplace_back();
    part.keys = std::move(tensors[at]);
    part.uses = std::move(tensors[at + 1]);
    part.values = std::move(tensors[at + 2]);
    for (size_t i = 0; i < slots; ++i) part.slots.push_back(std::move(tensors[at + 3 + i]));
  }
  return parts;
}

}  // namespace cohort
