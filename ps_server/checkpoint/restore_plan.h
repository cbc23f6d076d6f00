#pragma once

// The plan of a restore: which rows of which tensors a restore reads from a checkpoint.

#include <cstddef>
#include <map>
#include <string>

#include "common/checkpoint/bundle.h"
#include "common/program/update_rule.h"
#include "common/tensor/dtype.h"
#include "common/tensor/shape.h"
#include "common/tensor/slice_spec.h"
#include "common/tensor/tensor.h"

namespace cohort {

using BundleTensors = std::map<std::string, BundleTensor>;

struct RestoreSource {
  std::string prefix;
  bool slots = false;    // whether the restore includes slots, not only variables
  bool applied = false;  // whether the restore is that of a cut, with slots and histories
  // Whether slots that the restore does not read, for example because the checkpoint lacks them,
  // get their initial values. If false, the slices keep the present content of these slots. Ignored
  // for a cut.
  bool new_slots = false;

  friend bool operator==(const RestoreSource&, const RestoreSource&) = default;
};

// Returns whether a restore reads the slot `slot` from the checkpoint, in which the slot is saved
// as the tensor `name`. `tensors` are all tensors of the checkpoint.
bool TakesSlot(const BundleTensors& tensors, const RestoreSource& source, const SlotSpec& slot,
               const std::string& name);

// Returns the content that a slot has before the first update, for a variable whose value is
// `value`.
Tensor NewSlot(const SlotSpec& slot, const Shape& shape, const Tensor& value);

// A range of rows that a restore reads from one tensor.
struct WantedRows {
  std::string tensor;
  DType dtype = DType::kUndefined;
  Shape full_shape;
  RowRange rows;
  size_t shard = 0;  // index of the slice that the rows are for

  Shape shape() const { return ShapeOfRows(full_shape, rows); }
};

}  // namespace cohort
