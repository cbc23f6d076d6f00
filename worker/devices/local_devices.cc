#include "worker/devices/local_devices.h"

#include "absl/strings/str_cat.h"
#include "common/base/status.h"
#include "common/runtime/cuda/cuda_library.h"

namespace cohort {

namespace {

absl::StatusOr<int32_t> CountGpus(const FindCuda& find_cuda) {
  ASSIGN_OR_RETURN(const CudaTable* const table, CudaOf(find_cuda));
  ASSIGN_OR_RETURN(const int32_t count, CountCudaDevices(*table));
  if (count > 0) return count;
  return absl::FailedPreconditionError("this machine has no GPU");
}

}  // namespace

LocalDevices ListLocalDevices(const FindCuda& find_cuda) {
  const absl::StatusOr<int32_t> gpus = CountGpus(find_cuda);
  if (!gpus.ok()) return {{"cpu:0"}, std::string(gpus.status().message())};
  LocalDevices local;
  for (int32_t i = 0; i < *gpus; ++i) local.names.push_back(absl::StrCat("gpu:", i));
  return local;
}

}  // namespace cohort
