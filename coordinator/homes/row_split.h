#pragma once

// Helpers that split a list of row ids of a variable by the slices that hold the rows.

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "common/tensor/tensor.h"
#include "proto/plan.pb.h"

namespace cohort {

// Checks that every id is in [0, rows). Errors: OUT_OF_RANGE naming the variable and the first id
// outside.
absl::Status CheckRows(const std::string& variable, int64_t rows, absl::Span<const int64_t> ids);

// The ids of the rows that lie in one slice, and the positions of these ids in the whole list of
// ids.
struct SliceIds {
  std::vector<int64_t> ids;
  std::vector<size_t> places;
};
// Splits the ids by slices and returns one entry per slice; each entry keeps the order of the ids.
// The ids must have passed CheckRows, or be keys of a dynamic table.
std::vector<SliceIds> SplitRows(const proto::VariableLayout& variable,
                                absl::Span<const int64_t> ids);

// Returns the different ids in ascending order, as the tensor int64[n] that a Pull request carries.
Tensor EachOnce(std::vector<int64_t> ids);
// Copies the rows that a home has sent for EachOnce(slice.ids) to `out`, at the positions
// slice.places. Each row has `row_bytes` bytes; an id that occurs more than once gets the row at
// each of its positions.
void PutRows(const SliceIds& slice, const Tensor& each_once, absl::Span<const std::byte> came,
             size_t row_bytes, std::byte* out);

}  // namespace cohort
