#pragma once

// The description of one slice: the variable that it is a piece of, the rows, and how pushes change
// it. Layouts come from a peer, so everything about them is checked here, before anything is made.

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

// The additional description of a slice of a dynamic table; its rows are buckets of keys
// (key_bucket.h).
struct DynamicLayout {
  DType row_dtype = DType::kFloat32;
  RowPolicy policy;

  friend bool operator==(const DynamicLayout&, const DynamicLayout&) = default;
};

struct SliceLayout {
  uint32_t slice_id = 0;
  uint32_t ps = 0;
  bool mirrored = false;  // every home has it
  int64_t replicas = 0;   // whose rows these are (common/program/replica_rows.h); 0: of none
  std::string device;     // the device in whose memory it lies: "gpu:1"; empty: the processor
  std::string variable;
  DType dtype = DType::kUndefined;
  Shape full_shape;
  RowRange rows;
  proto::UpdateRule rule;
  UpdateRuleSpec rule_spec;
  InitializerSpec initializer;
  std::optional<DynamicLayout> dynamic;

  // Returns whether the id of a row, or the key, belongs to the slice.
  bool Holds(int64_t id) const;
  // Says why it does not: "id 9 is not in [0, 5)".
  std::string WhyOutside(int64_t id) const;
  proto::VariableAggregation aggregation = proto::AGGREGATION_NONE;

  // Returns the shape of this slice's rows; a scalar keeps its shape.
  Shape shape() const;
  // Return the shape of a slot beside the whole variable, and beside these rows.
  Shape full_shape_of(const SlotSpec& slot) const;
  Shape shape_of(const SlotSpec& slot) const;
  // Elements of a row, at least 1; those of a scalar or a vector are rows.
  size_t row_width() const;
  // Returns the bytes of the value and its slots; of a dynamic table's rows, their limit if there
  // is one.
  size_t resident_bytes() const;
  // Returns "slice 3: dense/kernel float32[784,256] rows 0 to 391, rmsprop(rho=0.9) lazy, zeros".
  std::string ToString() const;
};

// Returns the slices of a variable, in row order. Errors: INVALID_ARGUMENT naming the variable and
// the field: no name, an unknown type, a negative or overflowing shape, slices that leave a gap or
// overlap, an unknown rule or initializer, a rule that does not fit the type; for a dynamic table
// also those of RowLayout and CheckRowPolicy; a device that is not a GPU, and what a GPU does not
// keep.
absl::StatusOr<std::vector<SliceLayout>> SlicesOf(const proto::VariableLayout& layout);

// Compares everything but the initializer's seed and parameters: those matter only when a slice is
// made.
bool SameLayout(const SliceLayout& a, const SliceLayout& b);

}  // namespace cohort
