#pragma once

// The form in which elements travel over NCCL. Results keep every promise of collective_call.h,
// except that sums and products are in NCCL's order:
//
//   no reduction     bytes
//   sum, mean, prod  the accumulator: float32 for 16-bit floats, else the type itself; rounding to
//                    16 bits and the division of a mean are done once, after NCCL
//   min, max         of floats: integers in the order of the floats, with NaN beyond all of them,
//                    because NCCL's own min and max would lose a NaN; -0 is below 0 in this order

#include <cstddef>
#include <cstdint>

#include "absl/types/span.h"
#include "worker/collective/collective_call.h"
#include "worker/collective/nccl/nccl_table.h"

namespace cohort {

// Converts the elements of one call to NCCL's form and back. Thread-compatible.
class NcclElements {
 public:
  NcclElements(const CollectiveCall& call, int size);

  size_t bytes() const { return bytes_; }  // size of one element in NCCL's form
  NcclRun RunOf(int64_t elements) const;
  NcclReduction reduction() const { return reduction_; }

  // Converts `elements` elements to NCCL's form. `to` is aligned to 8 bytes; `from` need not be
  // aligned.
  void ToNccl(const std::byte* from, int64_t elements, std::byte* to) const;
  // Converts `elements` elements from NCCL's form. May change the elements at `from`.
  void FromNccl(std::byte* from, int64_t elements, std::byte* to) const;

 private:
  const DType dtype_;
  const ReduceOp reduce_;
  const int64_t divisor_;
  const bool reduces_;
  const bool as_order_;  // true for min and max of floats, which travel as integers
  const size_t bytes_;
  const NcclType type_;
  const NcclReduction reduction_;
};

}  // namespace cohort
