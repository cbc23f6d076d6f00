#pragma once

// What a ps knows of one slice: the variable that it is a piece of, the rows, and how pushes change
// it. Layouts come from a peer, so everything about them is checked here, before anything is made.

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/program/update_rule.h"
#include "common/tensor/initializer.h"
#include "common/tensor/slice_spec.h"
#include "common/tensor/tensor.h"
#include "proto/plan.pb.h"

namespace cohort {

struct SliceLayout {
  uint32_t slice_id = 0;
  uint32_t ps = 0;
  std::string variable;
  DType dtype = DType::kUndefined;
  Shape full_shape;
  RowRange rows;
  proto::UpdateRule rule;
  UpdateRuleSpec rule_spec;
  InitializerSpec initializer;

  // Of the rows of this slice; a scalar keeps its shape.
  Shape shape() const;
  // Of a slot beside the whole variable, and beside these rows.
  Shape full_shape_of(const SlotSpec& slot) const;
  Shape shape_of(const SlotSpec& slot) const;
  // Elements of a row, at least 1; those of a scalar or a vector are rows.
  size_t row_width() const;
  // Of the value and its slots.
  size_t resident_bytes() const;
  // "slice 3: dense/kernel float32[784,256] rows 0 to 391, rmsprop(rho=0.9) lazy, zeros".
  std::string ToString() const;
};

// The slices of a variable, in row order. Errors: INVALID_ARGUMENT naming the variable and the
// field: no name, an unknown type, a negative or overflowing shape, slices that leave a gap or
// overlap, an unknown rule or initializer, a rule that does not fit the type.
absl::StatusOr<std::vector<SliceLayout>> SlicesOf(const proto::VariableLayout& layout);

// Everything but the initializer's seed and parameters: those matter only when a slice is made.
bool SameLayout(const SliceLayout& a, const SliceLayout& b);

}  // namespace cohort
