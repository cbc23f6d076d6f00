#pragma once

// Finding CUDA. The program is not linked with it, so that one binary runs with and without a GPU:
// the module libcohort_cuda.so lies beside the executable where it was built, and is loaded when a
// program is to run on a GPU.

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/runtime/cuda/cuda_table.h"

namespace cohort {

// Loads the module at `path` and returns its table. The module stays loaded. Thread-safe. Errors:
// FAILED_PRECONDITION if the module is not there, cannot be loaded or is of another build; the
// message says what was tried and what to do.
absl::StatusOr<const CudaTable*> LoadCuda(const std::string& path);

// Returns how many devices the machine has. Errors: FAILED_PRECONDITION saying why the number is
// unknown.
absl::StatusOr<int32_t> CountCudaDevices(const CudaTable& table);

// Checks that the machine has this device. Errors: FAILED_PRECONDITION saying why not.
absl::Status CheckCudaDevice(const CudaTable& table, int32_t device);

// Returns OK for kCudaDone, else UNAVAILABLE: "gpu:0: computing: CUDA: an illegal memory access
// (700)".
absl::Status CudaStatus(const CudaTable& table, int32_t code, absl::string_view doing);

}  // namespace cohort
