#include "common/runtime/kernels/cuda/cuda_kernel.h"

#include "absl/strings/str_cat.h"

namespace cohort {

KernelDefinition DeviceKernel(Signature signature, std::vector<InputPlace> places,
                              absl::Status (*run)(KernelContext&)) {
  KernelDefinition definition = PlainKernel(std::move(signature), run);
  definition.places = std::move(places);
  return definition;
}

absl::StatusOr<BroadcastWalk> MakeWalk(const std::vector<BroadcastAxis>& axes) {
  if (axes.size() > kWalkAxesMax) {
    return absl::InvalidArgumentError(
        absl::StrCat("a device walks ", kWalkAxesMax, " axes at most, not ", axes.size()));
  }
  // A BroadcastWalk has a limited number of axes, because it is copied to the device as an argument
  // of a kernel.
  BroadcastWalk walk;
  for (const BroadcastAxis& axis : axes) {
    walk.size[walk.axes] = axis.size;
    walk.stride_a[walk.axes] = axis.stride_a;
    walk.stride_b[walk.axes] = axis.stride_b;
    ++walk.axes;
  }
  return walk;
}

}  // namespace cohort
