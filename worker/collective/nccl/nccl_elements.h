#pragma once

// As what elements travel over NCCL. What a call promises of its results (collective_call.h) is
// kept, but for the order of sums and products, which is NCCL's:
//
//   moved            bytes
//   sum, mean, prod  the accumulator: float32 for 16-bit floats, else the type itself; rounding to
//                    16 bits and the division of a mean are done once, behind NCCL
//   min, max         integers in the order of the floats, with NaN beyond all of them: NCCL's own
//                    would lose a NaN. -0 is below 0 there.

#include <cstddef>
#include <cstdint>

#include "absl/types/span.h"
#include "worker/collective/collective_call.h"
#include "worker/collective/nccl/nccl_table.h"

namespace cohort {

// Thread-compatible.
class NcclElements {
 public:
  NcclElements(const CollectiveCall& call, int size);

  size_t bytes() const { return bytes_; }  // of one element on its way
  NcclRun RunOf(int64_t elements) const;
  NcclReduction reduction() const { return reduction_; }

  // Converts to NCCL's form. The memory on NCCL's side is aligned to 8 bytes; the call's side need
  // not be aligned.
  void ToNccl(const std::byte* from, int64_t elements, std::byte* to) const;
  // Converts from NCCL's form. May change the elements at `from`.
  void FromNccl(std::byte* from, int64_t elements, std::byte* to) const;

 private:
  const DType dtype_;
  const ReduceOp reduce_;
  const int64_t divisor_;
  const bool reduces_;
  const bool as_order_;  // floats in min and max
  const size_t bytes_;
  const NcclType type_;
  const NcclReduction reduction_;
};

}  // namespace cohort
