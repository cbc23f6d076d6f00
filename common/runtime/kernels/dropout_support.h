#pragma once

// The mask of Dropout. The stream of random numbers is selected by (job seed, node name, step).
// Element e of the global batch is kept if 16 bits of the stream's 64-bit number e / 4, the part e
// % 4, are at least the threshold round(ratio * 65536). So the mask stays the same in a retry of
// the step and however the batch is split. One number serves four elements, because computing a
// random number costs more than the rest of the kernel. The probability is exact to 2^-17; the
// scale 1 / (1 - ratio) is exact.

#include <cstdint>
#include <string>

#include "common/base/rng.h"
#include "common/runtime/kernels/kernel_support.h"

namespace cohort {

struct DropoutParameters {
  std::string name;
  bool has_seed = false;
  // ONNX's attribute `seed`, which selects another stream of random numbers of the same job.
  int64_t seed = 0;
};
DropoutParameters ParseDropout(AttributeReader& reader);

// The values of Dropout's optional inputs ratio and training_mode. ReadDropoutMode finds them at
// positions `first` and `first` + 1.
struct DropoutMode {
  double ratio = 0.5;
  bool training = false;
  double Scale() const { return 1 / (1 - ratio); }
  uint32_t Threshold() const { return static_cast<uint32_t>(ratio * 65536 + 0.5); }
};
absl::StatusOr<DropoutMode> ReadDropoutMode(const KernelContext& context, int first);

RandomStream DropoutStream(const DropoutParameters& parameters, const RunContext& run);
// Returns the number in the global batch of the first element of this replica's batch.
uint64_t FirstElement(const RunContext& run, const Shape& shape);

inline bool DropoutKeeps(const RandomStream& stream, uint64_t element, uint32_t threshold) {
  return ((stream.Bits(element / 4) >> (16 * (element % 4))) & 0xffff) >= threshold;
}

}  // namespace cohort
