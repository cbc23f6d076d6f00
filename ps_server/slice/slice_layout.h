#pragma once

// The description of one slice of a variable: which variable and rows, and how pushes change them.
// The coordinator sends the layouts, so every field is checked here before memory is allocated.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/program/update_rule.h"
#include "common/tensor/initializer.h"
#include "common/tensor/slice_spec.h"
#include "common/tensor/tensor.h"
#include "proto/plan.pb.h"
#include "ps_server/table/row_policy.h"

namespace cohort {

// The settings that only slices of dynamic tables have. The "rows" in the layout of such a slice
// are buckets of keys (slice_spec.h).
struct DynamicLayout {
  DType row_dtype = DType::kFloat32;
  RowPolicy policy;

  friend bool operator==(const DynamicLayout&, const DynamicLayout&) = default;
};

struct SliceLayout {
  uint32_t slice_id = 0;
  uint32_t ps = 0;
  bool mirrored = false;  // whether every home has a copy of the slice
  // The number of replicas if the variable has one row for each replica
  // (common/program/aggregation.h), else 0.
  int64_t replicas = 0;
  // The device in whose memory the slice lies, for example "gpu:1"; empty for the processor's
  // memory.
  std::string device;
  std::string variable;
  DType dtype = DType::kUndefined;
  Shape full_shape;
  RowRange rows;
  proto::UpdateRule rule;
  UpdateRuleSpec rule_spec;
  InitializerSpec initializer;
  std::optional<DynamicLayout> dynamic;

  // Returns whether the row number `id`, or for a dynamic table the key `id`, belongs to the slice.
  bool Holds(int64_t id) const;
  // Returns a text for error messages that says why `id` does not belong to the slice, for example
  // "id 9 is not in [0, 5)".
  std::string WhyOutside(int64_t id) const;
  proto::VariableAggregation aggregation = proto::AGGREGATION_NONE;

  // Returns the shape of this slice's value. The slice of a scalar variable is a scalar.
  Shape shape() const;
  // Return the shape of a slot for the whole variable (full_shape_of) or for this slice's rows
  // (shape_of).
  Shape full_shape_of(const SlotSpec& slot) const;
  Shape shape_of(const SlotSpec& slot) const;
  // Returns the rows of full_shape_of(slot) that belong to this slice.
  RowRange rows_of(const SlotSpec& slot) const;
  // Returns the number of elements in a row, at least 1. In a scalar or a vector, each element is a
  // row.
  size_t row_width() const;
  // Returns the size of the slice's value and slots in bytes. For a slice of a dynamic table,
  // returns the limit of the slice's bytes, or 0 if the table has no limit.
  size_t resident_bytes() const;
  // Returns the layout as text, for example "slice 3: dense/kernel float32[784,256] rows 0 to 391,
  // rmsprop(rho=0.9) lazy, zeros".
  std::string ToString() const;
};

// Returns the slices of a variable in the order of their rows. Errors: INVALID_ARGUMENT that names
// the variable and the field, for no name, an unknown type, a negative or overflowing shape, slices
// that leave a gap or overlap, an unknown rule or initializer, a rule that does not fit the type or
// the shape, several slices under a rule that needs the whole variable, a device that is not a GPU,
// or a kind of variable that cannot be kept on a GPU; for a dynamic table also the errors of
// RowLayout and CheckRowPolicy.
absl::StatusOr<std::vector<SliceLayout>> SlicesOf(const proto::VariableLayout& layout);

// Returns whether two layouts are equal apart from their initializers, which matter only when a
// slice is made.
bool SameLayout(const SliceLayout& a, const SliceLayout& b);

}  // namespace cohort
