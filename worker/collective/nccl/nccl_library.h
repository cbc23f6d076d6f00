#pragma once

// The loading of CUDA and NCCL. The program is linked with neither, so that one binary runs with
// and without a GPU. The module libcohort_nccl.so lies beside the executable if it was built, and
// is loaded when a caller asks for it.

#include <cstdint>
#include <functional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "worker/collective/nccl/nccl_table.h"

namespace cohort {

// Returns the path of the module libcohort_nccl.so: in the directory of the executable.
std::string NcclModulePath();

// Loads the module at `path` and returns its table. The module stays loaded. Thread-safe. Errors:
// FAILED_PRECONDITION if the module is missing, cannot be loaded or is of another build; the
// message says what was tried and what to do.
absl::StatusOr<const NcclTable*> LoadNccl(const std::string& path);

// The function that finds NCCL's table; called when GPUs are to be joined by NCCL. Thread-safe.
// Errors: those of LoadNccl.
using FindNccl = std::function<absl::StatusOr<const NcclTable*>()>;

// Returns the table that `find_nccl` finds. A null `find_nccl` gives FAILED_PRECONDITION.
absl::StatusOr<const NcclTable*> NcclOf(const FindNccl& find_nccl);

// Checks that the machine has the GPU of number `device`. Errors: FAILED_PRECONDITION with the
// reason.
absl::Status CheckNcclDevice(const NcclTable& table, int32_t device);

// Returns OK for kNcclDone and kNcclUnderWay, and UNAVAILABLE for other codes: "starting a copy:
// CUDA: out of memory (2)". The context may be null.
absl::Status NcclStatus(const NcclTable& table, NcclContext* context, int32_t code,
                        absl::string_view doing);

// Returns NCCL's version number in words: "2.28.9".
std::string NcclVersionWords(int32_t version);

}  // namespace cohort
