#include "common/runtime/cuda/backend/for_each.cuh"
#include "common/runtime/cuda/launches/dropout_launches.h"

namespace cohort {

namespace {

// Returns the same bits as RandomStream::Bits of common/base/rng.h, which is not a device function.
COHORT_DEVICE inline uint64_t BitsOf(uint64_t key, uint64_t draw) {
  uint64_t value = key + draw * 0x9e3779b97f4a7c15u;
  value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9u;
  value = (value ^ (value >> 27)) * 0x94d049bb133111ebu;
  return value ^ (value >> 31);
}

int32_t Dropout(CudaContext* context, const DropoutLaunch& launch) {
  const DropoutLaunch captured = launch;
  return ForEach(context, launch.count, [=] COHORT_DEVICE(int64_t i) {
    const uint64_t element = captured.first + static_cast<uint64_t>(i);
    // One draw serves four elements with 16 bits each (kernels/dropout_support.h).
    const uint64_t bits = BitsOf(captured.key, element / 4);
    const bool keep = ((bits >> (16 * (element % 4))) & 0xffff) >= captured.threshold;
    if (captured.mask != nullptr) captured.mask[i] = keep;
    if (captured.y != nullptr) captured.y[i] = keep ? captured.x[i] * captured.scale : 0;
  });
}

int32_t MaskedScale(CudaContext* context, const MaskedScaleLaunch& launch) {
  const float scale = launch.scale;
  const float* const x = launch.x;
  const bool* const mask = launch.mask;
  float* const y = launch.y;
  return ForEach(context, launch.count,
                 [=] COHORT_DEVICE(int64_t i) { y[i] = mask[i] ? x[i] * scale : 0; });
}

}  // namespace

DropoutLaunches MakeDropoutLaunches() { return {Dropout, MaskedScale}; }

}  // namespace cohort
