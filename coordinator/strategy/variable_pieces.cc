#include "coordinator/strategy/variable_pieces.h"

#include <algorithm>
#include <limits>
#include <set>

#include "absl/strings/str_cat.h"
#include "common/program/table_limit.h"
#include "common/program/update_rule.h"
#include "common/tensor/dtype.h"
#include "common/wire/frame_limits.h"

namespace cohort {

namespace {

constexpr int64_t kMost = std::numeric_limits<int64_t>::max();

// Returns the product a * b, or the largest int64 if it overflows.
int64_t Times(int64_t a, int64_t b) {
  int64_t product = 0;
  return __builtin_mul_overflow(a, b, &product) ? kMost : product;
}

// Returns the size of a row in bytes, or the largest size_t if the size overflows. A scalar counts
// as one row.
size_t RowBytes(const proto::VariableLayout& layout) {
  size_t bytes = ElementSize(static_cast<DType>(layout.dtype()));
  for (int axis = 1; axis < layout.dims_size(); ++axis) {
    const auto dim = static_cast<size_t>(layout.dims(axis));
    if (__builtin_mul_overflow(bytes, dim, &bytes)) return std::numeric_limits<size_t>::max();
  }
  return bytes;
}

}  // namespace

std::vector<VariablePiece> PiecesOf(const proto::VariableLayout& layout) {
  std::vector<VariablePiece> pieces;
  for (const proto::SliceHome& slice : layout.slices()) {
    // The slices of one piece follow one another. All of them but the first have `same_piece` set.
    if (slice.same_piece() && !pieces.empty()) {
      pieces.back().rows.count += slice.row_count();
    } else {
      pieces.push_back({layout.name(), {slice.row_begin(), slice.row_count()}, slice.ps()});
    }
  }
  // Pieces get the names ".../part_0", ".../part_1" and so on only if the variable has several
  // pieces.
  for (size_t i = 0; pieces.size() > 1 && i < pieces.size(); ++i) {
    absl::StrAppend(&pieces[i].name, "/part_", i);
  }
  return pieces;
}

absl::Status CheckRowBytes(const proto::VariableLayout& layout) {
  size_t bytes = RowBytes(layout);
  const bool of_replicas = layout.replicas() > 0;
  if (of_replicas && __builtin_mul_overflow(bytes, size_t{layout.replicas()}, &bytes)) {
    bytes = std::numeric_limits<size_t>::max();
  }
  if (bytes <= kRowBytesMax) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "variable '", layout.name(),
      "': ", of_replicas ? "its values of all replicas have " : "a row of it has ", bytes,
      " bytes, and at most ", kRowBytesMax,
      " travel in one piece: variables are cut along axis 0 alone, so give it more rows of fewer "
      "elements"));
}

void CutAt(absl::Span<const int64_t> starts, proto::VariableLayout& layout) {
  const std::set<int64_t> cuts(starts.begin(), starts.end());
  google::protobuf::RepeatedPtrField<proto::SliceHome> slices;
  for (const proto::SliceHome& whole : layout.slices()) {
    const int64_t end = whole.row_begin() + whole.row_count();
    *slices.Add() = whole;
    for (auto cut = cuts.upper_bound(whole.row_begin()); cut != cuts.end() && *cut < end; ++cut) {
      proto::SliceHome& before = slices[slices.size() - 1];
      before.set_row_count(*cut - before.row_begin());
      proto::SliceHome& behind = *slices.Add();
      behind = whole;
      behind.set_row_begin(*cut);
      behind.set_row_count(end - *cut);
      behind.set_same_piece(true);
    }
  }
  layout.mutable_slices()->Swap(&slices);
}

void CutAt(const std::map<std::string, std::vector<int64_t>>& starts,
           absl::Span<proto::VariableLayout> layouts) {
  uint32_t next_slice_id = 0;
  for (proto::VariableLayout& layout : layouts) {
    const auto found = starts.find(layout.name());
    if (found != starts.end()) CutAt(found->second, layout);
    for (proto::SliceHome& slice : *layout.mutable_slices()) slice.set_slice_id(next_slice_id++);
  }
}

void CutPieces(size_t slice_bytes_max, uint32_t& next_slice_id, proto::VariableLayout& layout) {
  // Never cut are dynamic tables, variables with one value per replica, variables in the memory of
  // a device, variables whose rule computes with the whole of them, and scalars.
  const absl::StatusOr<UpdateRuleSpec> rule = DescribeUpdateRule(layout.rule());
  const bool is_cut = !layout.has_dynamic() && layout.replicas() == 0 && layout.device().empty() &&
                      layout.dims_size() > 0 && !(rule.ok() && rule->whole);
  const auto rows_max = static_cast<int64_t>(
      std::max<size_t>(1, slice_bytes_max / std::max<size_t>(RowBytes(layout), 1)));
  google::protobuf::RepeatedPtrField<proto::SliceHome> slices;
  for (const proto::SliceHome& piece : layout.slices()) {
    const int64_t rows = piece.row_count();
    // With ceil(rows / rows_max) slices, no slice has more than rows_max rows.
    const int64_t count = is_cut ? (rows - 1) / rows_max + 1 : 1;
    for (const RowRange& range : DivRows(rows, std::max<int64_t>(count, 1))) {
      proto::SliceHome& slice = *slices.Add();
      slice = piece;
      slice.set_slice_id(next_slice_id++);
      slice.set_row_begin(piece.row_begin() + range.begin);
      slice.set_row_count(range.count);
      // `same_piece` marks a slice that continues the piece of the slice before it.
      slice.set_same_piece(piece.same_piece() || range.begin > 0);
    }
  }
  layout.mutable_slices()->Swap(&slices);
}

std::string SliceName(const proto::VariableLayout& layout, int slice) {
  if (layout.slices_size() == 1) return layout.name();
  return absl::StrCat(layout.name(), "/part_", slice);
}

int64_t PlusBytes(int64_t a, int64_t b) { return a > kMost - b ? kMost : a + b; }

int64_t PieceBytes(const proto::VariableLayout& layout, int slice) {
  if (layout.has_dynamic()) {
    return static_cast<int64_t>(std::min<uint64_t>(TableLimitOf(layout, slice), kMost));
  }
  const int64_t rows = layout.slices(slice).row_count();
  int64_t elements = rows;
  for (int axis = 1; axis < layout.dims_size(); ++axis) {
    elements = Times(elements, layout.dims(axis));
  }
  int64_t bytes =
      Times(elements, static_cast<int64_t>(ElementSize(static_cast<DType>(layout.dtype()))));
  // If the update rule is not known here, only the value counts. The parameter server will refuse
  // the rule.
  const absl::StatusOr<UpdateRuleSpec> rule = DescribeUpdateRule(layout.rule());
  if (!rule.ok()) return bytes;
  for (const SlotSpec& slot : rule->slots) {
    int64_t of_slot = slot.per_row ? rows : elements;
    // Such a slot has one element for each sum over a dimension (ShapeOfSlot).
    if (slot.without_dim > 0 && layout.dims_size() > 1) {
      of_slot /= std::max<int64_t>(layout.dims(layout.dims_size() - slot.without_dim), 1);
    }
    bytes = PlusBytes(bytes, Times(of_slot, static_cast<int64_t>(sizeof(float))));
  }
  return bytes;
}

}  // namespace cohort
