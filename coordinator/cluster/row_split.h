#pragma once

// Rows of a variable, by their numbers, as the slices have them.

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "proto/plan.pb.h"

namespace cohort {

// Errors: OUT_OF_RANGE naming the variable and the first id that is not in [0, rows).
absl::Status CheckRows(const std::string& variable, int64_t rows, absl::Span<const int64_t> ids);

// What one slice has of the ids that were asked for: them, and their places among all.
struct SliceIds {
  std::vector<int64_t> ids;
  std::vector<size_t> places;
};
// One entry per slice, in the order of the ids. They have passed CheckRows, or are keys, any of
// them, of a dynamic table.
std::vector<SliceIds> SplitRows(const proto::VariableLayout& variable,
                                absl::Span<const int64_t> ids);

}  // namespace cohort
