#include "tests/support/communicators/sparse_rows.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <numeric>
#include <utility>

#include "absl/types/span.h"

namespace cohort {

namespace {

SparseRows EmptyLike(const SparseRows& rows) {
  return {rows.dtype, true, rows.row_elements, {}, {}};
}

// A new row of `to`, the partial sum of one or two.
void AppendSum(SparseRows& to, int64_t id, absl::Span<const Operand> operands) {
  to.ids.push_back(id);
  to.rows.resize(to.rows.size() + to.RowBytes());
  CombineTree({to.dtype, ReduceOp::kSum}, operands, static_cast<size_t>(to.row_elements),
              {to.rows.data() + to.rows.size() - to.RowBytes(), true, 1});
}

Operand RowOf(const SparseRows& rows, size_t index) {
  return {rows.rows.data() + index * rows.RowBytes(), rows.partial};
}

SparseRows Tree(std::vector<SparseRows>& by_rank, size_t begin, size_t size) {
  if (size == 1) return std::move(by_rank[begin]);
  const size_t left = std::bit_floor(size - 1);
  return MergeTwo(Tree(by_rank, begin, left), Tree(by_rank, begin + left, size - left));
}

}  // namespace

size_t SparseRows::RowBytes() const {
  return static_cast<size_t>(row_elements) * ElementSize(partial ? AccumulatorOf(dtype) : dtype);
}

SparseRows MergeOwn(const SparseRows& rows) {
  std::vector<size_t> order(rows.ids.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return rows.ids[a] < rows.ids[b]; });
  SparseRows merged = EmptyLike(rows);
  for (const size_t index : order) {
    const Operand row = RowOf(rows, index);
    if (merged.ids.empty() || merged.ids.back() != rows.ids[index]) {
      AppendSum(merged, rows.ids[index], {row});
      continue;
    }
    std::byte* const last = merged.rows.data() + merged.rows.size() - merged.RowBytes();
    const Operand both[] = {{last, true}, row};
    CombineTree({rows.dtype, ReduceOp::kSum}, both, static_cast<size_t>(rows.row_elements),
                {last, true, 1});
  }
  return merged;
}

SparseRows MergeTwo(const SparseRows& a, const SparseRows& b) {
  SparseRows merged = EmptyLike(a);
  merged.ids.reserve(a.ids.size() + b.ids.size());
  size_t i = 0;
  size_t j = 0;
  while (i < a.ids.size() || j < b.ids.size()) {
    const bool from_a = j == b.ids.size() || (i < a.ids.size() && a.ids[i] <= b.ids[j]);
    const bool from_b = i == a.ids.size() || (j < b.ids.size() && b.ids[j] <= a.ids[i]);
    if (from_a && from_b) {
      const Operand both[] = {RowOf(a, i), RowOf(b, j)};
      AppendSum(merged, a.ids[i], both);
    } else {
      AppendSum(merged, from_a ? a.ids[i] : b.ids[j], {from_a ? RowOf(a, i) : RowOf(b, j)});
    }
    i += from_a ? 1 : 0;
    j += from_b ? 1 : 0;
  }
  return merged;
}

SparseRows MergeTree(std::vector<SparseRows> by_rank) { return Tree(by_rank, 0, by_rank.size()); }

SparseRows Finished(SparseRows rows, int64_t divisor) {
  SparseRows finished{rows.dtype, false, rows.row_elements, std::move(rows.ids), {}};
  const size_t elements = finished.ids.size() * static_cast<size_t>(rows.row_elements);
  finished.rows.resize(elements * ElementSize(rows.dtype));
  const Operand all = {rows.rows.data(), rows.partial};
  if (elements > 0) {
    CombineTree({rows.dtype, ReduceOp::kSum}, {all}, elements,
                {finished.rows.data(), false, divisor});
  }
  return finished;
}

}  // namespace cohort
