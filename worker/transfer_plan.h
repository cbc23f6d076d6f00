#pragma once

// Which bytes of which tensors travel between a worker and each parameter server. A variable is cut
// into slices of rows, each with a home; a plan lists the slices of some variables by home, so that
// one call to each server moves all of them, straight to or from their place in the whole tensor.

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/tensor/tensor.h"
#include "proto/plan.pb.h"

namespace cohort {

struct VariableType {
  std::string name;
  DType dtype = DType::kUndefined;
  Shape shape;
  std::string ToString() const;  // "w: float32[784,256]"
};

struct SliceTransfer {
  uint32_t slice_id = 0;
  size_t variable = 0;  // in TransferPlan::variables
  size_t ordinal = 0;   // counts all slices of the plan in its order
  size_t offset = 0;    // of its first byte in the whole variable
  size_t bytes = 0;
  Shape shape;
};

struct PsTransfer {
  uint32_t ps = 0;
  std::vector<SliceTransfer> slices;
  size_t bytes = 0;
};

struct TransferPlan {
  std::vector<VariableType> variables;
  std::vector<PsTransfer> by_ps;  // ascending
  size_t num_slices = 0;

  bool empty() const { return variables.empty(); }
};

// Errors: INVALID_ARGUMENT naming the variable whose type is unknown or whose slices do not cover
// axis 0 once, in row order.
absl::StatusOr<TransferPlan> MakeTransferPlan(
    absl::Span<const proto::VariableLayout* const> variables);

}  // namespace cohort
