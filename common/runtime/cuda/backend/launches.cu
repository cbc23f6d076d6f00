#include "common/runtime/cuda/launches/launches.h"

namespace cohort {

CudaLaunches MakeCudaLaunches() {
  CudaLaunches launches = {};
  launches.batch_norm = MakeBatchNormLaunches();
  launches.dropout = MakeDropoutLaunches();
  launches.elementwise = MakeElementwiseLaunches();
  launches.losses = MakeLossesLaunches();
  launches.padding = MakePaddingLaunches();
  launches.pooling = MakePoolingLaunches();
  launches.products = MakeProductsLaunches();
  launches.reduce = MakeReduceLaunches();
  launches.softmax = MakeSoftmaxLaunches();
  launches.sums = MakeSumsLaunches();
  launches.updates = MakeUpdatesLaunches();
  return launches;
}

}  // namespace cohort
