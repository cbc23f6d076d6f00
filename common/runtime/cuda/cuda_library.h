#pragma once

// Finding CUDA. Cohort's executables are not linked with CUDA, so the same executable runs with and
// without a GPU. All code that needs CUDA is in the module libcohort_cuda.so, which lies beside the
// executable if it was built. The module is loaded when a program is to run on a GPU.

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/runtime/cuda/cuda_table.h"

namespace cohort {

// Loads the CUDA module at `path` and returns its table of functions. The module stays loaded.
// Thread-safe. Errors: FAILED_PRECONDITION if the module is missing, cannot be loaded or is from
// another build; the message says what was tried and what to do.
absl::StatusOr<const CudaTable*> LoadCuda(const std::string& path);

// Returns the number of GPUs in the machine. Errors: FAILED_PRECONDITION that says why the number
// is unknown.
absl::StatusOr<int32_t> CountCudaDevices(const CudaTable& table);

// Checks that the machine has the GPU with number `device`. Errors: FAILED_PRECONDITION with the
// machine's number of GPUs if the machine lacks the GPU.
absl::Status CheckCudaDevice(const CudaTable& table, int32_t device);

// Converts an error code of CudaTable to a status: OK for kCudaDone, else UNAVAILABLE with CUDA's
// explanation, as in "gpu:0: computing: CUDA: an illegal memory access (700)".
absl::Status CudaStatus(const CudaTable& table, int32_t code, absl::string_view doing);

}  // namespace cohort
