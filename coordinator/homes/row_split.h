#pragma once

// Rows of a variable, by their numbers, as the slices have them.

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "common/tensor/tensor.h"
#include "proto/plan.pb.h"

namespace cohort {

// Errors: OUT_OF_RANGE naming the variable and the first id that is not in [0, rows).
absl::Status CheckRows(const std::string& variable, int64_t rows, absl::Span<const int64_t> ids);

// The ids that fall into one slice, and their places among all.
struct SliceIds {
  std::vector<int64_t> ids;
  std::vector<size_t> places;
};
// Returns one entry per slice, in the order of the ids. The ids have passed CheckRows, or are any
// keys of a dynamic table.
std::vector<SliceIds> SplitRows(const proto::VariableLayout& variable,
                                absl::Span<const int64_t> ids);

// Returns each of the ids once, ascending: int64[n], as a call asks for them.
Tensor EachOnce(std::vector<int64_t> ids);
// Puts what came for EachOnce of a slice's ids to their places among all, in rows of `row_bytes`.
void PutRows(const SliceIds& slice, const Tensor& each_once, absl::Span<const std::byte> came,
             size_t row_bytes, std::byte* out);

}  // namespace cohort
