#include "common/runtime/kernels/cuda/make_walk.h"

#include "absl/strings/str_cat.h"

namespace cohort {

absl::StatusOr<BroadcastWalk> MakeWalk(const std::vector<BroadcastAxis>& axes) {
  if (axes.size() > kWalkAxesMax) {
    return absl::InvalidArgumentError(
        absl::StrCat("a device walks ", kWalkAxesMax, " axes at most, not ", axes.size()));
  }
  // A walk has a fixed size, because it is copied to the device as an argument of a kernel.
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
