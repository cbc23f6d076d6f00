#pragma once

// The description of one slice: the variable that the slice belongs to, the slice's rows, and how
// pushes change them. Layouts come from a peer, so every field is checked here, before memory is
// allocated.

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

// The part of a layout that only slices of dynamic tables have. The rows of such a slice are
// buckets of keys (slice_spec.h).
struct DynamicLayout {
  DType row_dtype = DType::kFloat32;
  RowPolicy policy;

  friend bool operator==(const DynamicLayout&, const DynamicLayout&) = default;
};

struct SliceLayout {
  uint32_t slice_id = 0;
  uint32_t ps = 0;
  bool mirrored = false;  // whether every home has a copy of the slice
  // The number of replicas with a row each (common/program/aggregation.h); 0 means none.
  int64_t replicas = 0;
  // The device in whose memory the slice lies, as "gpu:1"; empty for the processor.
  std::string device;
  std::string variable;
  DType dtype = DType::kUndefined;
  Shape full_shape;
  RowRange rows;
  proto::UpdateRule rule;
  UpdateRuleSpec rule_spec;
  InitializerSpec initializer;
  std::optional<DynamicLayout> dynamic;

  // Returns whether a row id, or a key of a dynamic table, belongs to the slice.
  bool Holds(int64_t id) const;
  // Explains in an error message why `id` does not belong to the slice: "id 9 is not in [0, 5)".
  std::string WhyOutside(int64_t id) const;
  proto::VariableAggregation aggregation = proto::AGGREGATION_NONE;

  // Returns the shape of this slice's rows; a scalar variable's slice is a scalar.
  Shape shape() const;
  // Return a slot's shape for the whole variable (full_shape_of), and for this slice's rows
  // (shape_of).
  Shape full_shape_of(const SlotSpec& slot) const;
  Shape shape_of(const SlotSpec& slot) const;
  // Returns the number of elements in a row, at least 1. Each element of a scalar or a vector is a
  // row.
  size_t row_width() const;
  // Returns the bytes of the slice's value and slots. For a dynamic table, returns the limit of the
  // rows' bytes, or 0 without a limit.
  size_t resident_bytes() const;
  // Describes the layout: "slice 3: dense/kernel float32[784,256] rows 0 to 391, rmsprop(rho=0.9)
  // lazy, zeros".
  std::string ToString() const;
};

// Returns the slices of a variable, in row order. Errors: INVALID_ARGUMENT that names the variable
// and the field, for no name, an unknown type, a negative or overflowing shape, slices that leave a
// gap or overlap, an unknown rule or initializer, a rule that does not fit the type, a device that
// is not a GPU, or a variable that a GPU does not keep; for a dynamic table also the errors of
// RowLayout and CheckRowPolicy.
absl::StatusOr<std::vector<SliceLayout>> SlicesOf(const proto::VariableLayout& layout);

// Returns whether two layouts are equal in everything but the initializer, which matters only when
// a slice is made.
bool SameLayout(const SliceLayout& a, const SliceLayout& b);

}  // namespace cohort
