#include "common/runtime/kernels/cuda/launches.h"

namespace cohort {

CudaLaunches MakeCudaLaunches() {
  CudaLaunches launches = {};
  launches.elementwise = MakeElementwiseLaunches();
  return launches;
}

}  // namespace cohort
