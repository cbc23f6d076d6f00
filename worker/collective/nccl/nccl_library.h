#pragma once

// The loading of CUDA and NCCL. The executable is linked with neither, so that one executable runs
// with and without a GPU. If the module libcohort_nccl.so was built, it lies beside the executable,
// and is loaded when it is needed.

#include <cstdint>
#include <functional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "worker/collective/nccl/nccl_table.h"

namespace cohort {

// Returns the path of libcohort_nccl.so, in the directory of the executable.
std::string NcclModulePath();

// Loads the module at `path` and returns its table of functions. The module stays loaded.
// Thread-safe. Errors: FAILED_PRECONDITION if the module is missing, cannot be loaded or is of
// another build; the message says what was tried and what to do.
absl::StatusOr<const NcclTable*> LoadNccl(const std::string& path);

// Returns the functions of NCCL; called when GPUs are to be joined by NCCL. Thread-safe. Errors:
// those of LoadNccl().
using FindNccl = std::function<absl::StatusOr<const NcclTable*>()>;

// Returns the functions that `find_nccl` finds. Errors: those of `find_nccl`; FAILED_PRECONDITION
// if `find_nccl` is null.
absl::StatusOr<const NcclTable*> NcclOf(const FindNccl& find_nccl);

// Checks that this machine has GPU number `device`. Errors: FAILED_PRECONDITION with the reason.
absl::Status CheckNcclDevice(const NcclTable& table, int32_t device);

// Returns OK for the codes kNcclDone and kNcclUnderWay, and UNAVAILABLE for any other code, in
// words: "starting a copy: CUDA: out of memory (2)". `doing` is what failed; `context` may be null.
absl::Status NcclStatus(const NcclTable& table, NcclContext* context, int32_t code,
                        absl::string_view doing);

// Returns the version number of NCCL in words: "2.28.9".
std::string NcclVersionWords(int32_t version);

}  // namespace cohort
