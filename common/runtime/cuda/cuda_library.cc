#include "common/runtime/cuda/cuda_library.h"

#include <array>

#include "absl/strings/str_cat.h"
#include "common/base/module.h"
#include "common/base/status.h"

namespace cohort {

absl::StatusOr<const CudaTable*> LoadCuda(const std::string& path) {
  constexpr absl::string_view kWithout =
      "build with -DCOHORT_CUDA=ON where CUDA is installed, keep the module beside the executable, "
      "or use cpu devices";
  // A machine without a GPU usually has no libcohort_cuda.so, so the error says what to do.
  const absl::StatusOr<void*> symbol = LoadModule(path, kCudaTableSymbol);
  if (!symbol.ok()) {
    return absl::FailedPreconditionError(
        absl::StrCat("no GPU can be used: ", symbol.status().message(), "; ", kWithout));
  }
  // The version of the CudaTable is compared before any other member is read, because the layout of
  // another version may differ.
  const auto table_of = reinterpret_cast<const CudaTable* (*)()>(*symbol);
  const CudaTable* const table = table_of != nullptr ? table_of() : nullptr;
  if (table == nullptr || table->version != kCudaTableVersion) {
    return absl::FailedPreconditionError(
        absl::StrCat("no GPU can be used: ", path, " is of another build (version ",
                     table == nullptr ? 0 : table->version, " of its table, not ",
                     kCudaTableVersion, "); install the module and the executable of one build"));
  }
  return table;
}

absl::StatusOr<int32_t> CountCudaDevices(const CudaTable& table) {
  int32_t count = 0;
  const int32_t code = table.device_count(table.self, &count);
  const absl::Status counted = CudaStatus(table, code, "looking for GPUs");
  if (counted.ok()) return count;
  return absl::FailedPreconditionError(
      absl::StrCat("no GPU can be used: ", counted.message(),
                   "; install the driver that nvidia-smi needs, or use cpu devices"));
}

absl::Status CheckCudaDevice(const CudaTable& table, int32_t device) {
  ASSIGN_OR_RETURN(const int32_t count, CountCudaDevices(table));
  if (device >= 0 && device < count) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat("gpu:", device,
                                                    " is not there: this machine has ", count,
                                                    " GPUs; use those that nvidia-smi lists"));
}

absl::Status CudaStatus(const CudaTable& table, int32_t code, absl::string_view doing) {
  if (code == kCudaDone) return absl::OkStatus();
  std::array<char, 512> words = {};
  table.error_words(table.self, code, words.data(), words.size());
  return absl::UnavailableError(absl::StrCat(doing, ": ", words.data()));
}

}  // namespace cohort
