#pragma once

// The tensors, and the rows of them, that a restore reads from a checkpoint.

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
  bool slots = false;    // whether slots are read too, beside variables
  bool applied = false;  // whether the checkpoint is restored as a cut: slots and histories too
  // Whether slots that are not read get their initial values, even if the checkpoint does not have
  // them. If false, the slices keep such slots. Ignored for a cut.
  bool new_slots = false;

  friend bool operator==(const RestoreSource&, const RestoreSource&) = default;
};

// Returns whether a restore reads a slot, whose tensor is `name`, from a checkpoint that has
// `tensors`.
bool TakesSlot(const BundleTensors& tensors, const RestoreSource& source, const SlotSpec& slot,
               const std::string& name);

// Returns the slot that a variable with value `value` has before its first update.
Tensor NewSlot(const SlotSpec& slot, const Shape& shape, const Tensor& value);

// The rows of one tensor that a restore reads.
struct WantedRows {
  std::string tensor;
  DType dtype = DType::kUndefined;
  Shape full_shape;
  RowRange rows;
  size_t shard = 0;  // index of the slice that gets the rows

  Shape shape() const;
};

}  // namespace cohort
