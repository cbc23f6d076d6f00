#pragma once

// Finding CUDA. The program is not linked with CUDA, so one binary runs with and without a GPU. All
// code that needs CUDA is in the module libcohort_cuda.so, which lies beside the executable if it
// was built. The module is loaded when a program is to run on a GPU.

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/runtime/cuda/cuda_table.h"

namespace cohort {

// Loads the module at `path` and returns its table. The module stays loaded. Thread-safe. Errors:
// FAILED_PRECONDITION if the module is missing, cannot be loaded or is from another build; the
// message says what was tried and what to do.
absl::StatusOr<const CudaTable*> LoadCuda(const std::string& path);

// Returns the number of GPUs in the machine. Errors: FAILED_PRECONDITION that says why the number
// is unknown.
absl::StatusOr<int32_t> CountCudaDevices(const CudaTable& table);

// Checks that the machine has this device. Errors: FAILED_PRECONDITION if it does not, with the
// number of GPUs that the machine has.
absl::Status CheckCudaDevice(const CudaTable& table, int32_t device);

// Converts a code of the table: returns OK for kCudaDone, else UNAVAILABLE with CUDA's words, as in
// "gpu:0: computing: CUDA: an illegal memory access (700)".
absl::Status CudaStatus(const CudaTable& table, int32_t code, absl::string_view doing);

}  // namespace cohort
