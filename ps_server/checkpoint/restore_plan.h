#pragma once

// The part of a checkpoint that a restore reads.

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
  bool slots = false;    // false: variables alone
  bool applied = false;  // a cut: slots and histories too
  // Slots that are not read begin as new, also those that the checkpoint does not have. False: they
  // stay. Not of a cut.
  bool new_slots = false;

  friend bool operator==(const RestoreSource&, const RestoreSource&) = default;
};

// Returns whether a restore reads this slot from a checkpoint that has these tensors under `name`.
bool TakesSlot(const BundleTensors& tensors, const RestoreSource& source, const SlotSpec& slot,
               const std::string& name);

// Returns the slot that a variable of this value has before its first update.
Tensor NewSlot(const SlotSpec& slot, const Shape& shape, const Tensor& value);

// Rows of a tensor that a restore reads.
struct WantedRows {
  std::string tensor;
  DType dtype = DType::kUndefined;
  Shape full_shape;
  RowRange rows;
  size_t shard = 0;  // index of the slice that wants them

  Shape shape() const;
};

}  // namespace cohort
