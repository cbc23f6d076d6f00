#pragma once

// Row-sparse gradients: rows of a table under their ids, as an embedding's gradient has them.

#include <cstdint>
#include <vector>

#include "worker/collective/reduce_tree.h"

namespace cohort {

// Row i of `rows` belongs to ids[i]. The elements are of `dtype`, or of its accumulator where they
// are partial sums.
struct SparseRows {
  DType dtype = DType::kFloat32;
  bool partial = false;
  int64_t row_elements = 1;
  std::vector<int64_t> ids;
  std::vector<std::byte> rows;

  int64_t count() const { return static_cast<int64_t>(ids.size()); }
  size_t RowBytes() const;
};

// Ascending ids, each once; rows of the same id are summed in the order in which they are.
SparseRows MergeOwn(const SparseRows& rows);

// Of two with ascending unique ids: rows that both have are added, a first.
SparseRows MergeTwo(const SparseRows& a, const SparseRows& b);

// The tree over all ranks' rows (reduce_tree.h), where a rank without a row adds nothing to it:
// what a dense sum gives, down to the bits, but for negative zeros.
SparseRows MergeTree(std::vector<SparseRows> by_rank);

// As values of the type, divided once.
SparseRows Finished(SparseRows rows, int64_t divisor);

}  // namespace cohort
