#pragma once

// Finding CUDA and NCCL. The program is linked with neither, so that one binary runs with and
// without a GPU: the module libcohort_nccl.so lies beside the executable where it was built, and is
// loaded when somebody asks for it.

#include <cstdint>
#include <functional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "worker/collective/nccl/nccl_table.h"

namespace cohort {

// Returns the path of the module: in the directory of the executable.
std::string NcclModulePath();

// Loads the module at `path` and returns its table. The module stays loaded. Thread-safe. Errors:
// FAILED_PRECONDITION if the module is not there, cannot be loaded or is of another build; the
// message says what was tried and what to do.
absl::StatusOr<const NcclTable*> LoadNccl(const std::string& path);

// Asked when GPUs are to be joined by NCCL. Thread-safe. Errors: those of LoadNccl.
using FindNccl = std::function<absl::StatusOr<const NcclTable*>()>;

// Calls `find_nccl`; null finds nothing.
absl::StatusOr<const NcclTable*> NcclOf(const FindNccl& find_nccl);

// Checks that the machine has this device. Errors: FAILED_PRECONDITION saying why not.
absl::Status CheckNcclDevice(const NcclTable& table, int32_t device);

// Returns OK for kNcclDone and kNcclUnderWay, else UNAVAILABLE: "starting a copy: CUDA: out of
// memory (2)". The context may be null.
absl::Status NcclStatus(const NcclTable& table, NcclContext* context, int32_t code,
                        absl::string_view doing);

// Returns "2.28.9".
std::string NcclVersionWords(int32_t version);

}  // namespace cohort
