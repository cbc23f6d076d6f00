#pragma once

// Functions that distribute the row ids of a request over the slices that hold the rows.

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "common/tensor/tensor.h"
#include "proto/plan.pb.h"

namespace cohort {

// Checks that every id is in [0, rows). Errors: OUT_OF_RANGE naming the variable and the first bad
// id.
absl::Status CheckRows(const std::string& variable, int64_t rows, absl::Span<const int64_t> ids);

// Those ids of a list whose rows lie in one slice, and the positions of these ids in the list.
struct SliceIds {
  std::vector<int64_t> ids;
  std::vector<size_t> places;
};
// Distributes the ids over the slices of the variable. Returns one entry per slice, in which the
// ids keep their order. The ids must have passed CheckRows, or be keys of a dynamic table.
std::vector<SliceIds> SplitRows(const proto::VariableLayout& variable,
                                absl::Span<const int64_t> ids);

// Returns each id once, in ascending order, as a tensor of type int64 and shape [n]. A Pull request
// carries this tensor.
Tensor EachOnce(std::vector<int64_t> ids);
// Writes the rows of one slice to `out`. `came` holds the rows of the ids `each_once`
// (EachOnce(slice.ids)), as a home has sent them. Each row has `row_bytes` bytes and is written to
// all positions in slice.places whose id it has.
void PutRows(const SliceIds& slice, const Tensor& each_once, absl::Span<const std::byte> came,
             size_t row_bytes, std::byte* out);

}  // namespace cohort
