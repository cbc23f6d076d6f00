#include "worker/collective/nccl/nccl_library.h"

#include <array>

#include "absl/strings/str_cat.h"
#include "common/base/module.h"
#include "common/wire/error_detail.h"

namespace cohort {

namespace {

constexpr absl::string_view kModule = "libcohort_nccl.so";

// Returns the error for a module, a driver or a GPU that is missing, with class CONFIGURATION.
absl::Status Missing(const std::string& what) {
  return MakeError(absl::StatusCode::kFailedPrecondition, what, proto::CONFIGURATION);
}

}  // namespace

std::string NcclModulePath() { return ModulePath(kModule); }

absl::StatusOr<const NcclTable*> LoadNccl(const std::string& path) {
  const absl::StatusOr<void*> symbol = LoadModule(path, kNcclTableSymbol);
  if (!symbol.ok()) {
    return Missing(absl::StrCat("NCCL is not available: ", symbol.status().message(),
                                "; build with -DCOHORT_CUDA=ON where CUDA and NCCL are installed, "
                                "and keep the module beside the executable"));
  }
  const auto table_of = reinterpret_cast<const NcclTable* (*)()>(*symbol);
  const NcclTable* const table = table_of != nullptr ? table_of() : nullptr;
  // The table of a module of another build may have another layout.
  if (table == nullptr || table->version != kNcclTableVersion) {
    return Missing(absl::StrCat("NCCL is not available: ", path, " is of another build (version ",
                                table == nullptr ? 0 : table->version, " of its table, not ",
                                kNcclTableVersion,
                                "); install the module and the executable of "
                                "one build"));
  }
  return table;
}

absl::StatusOr<const NcclTable*> NcclOf(const FindNccl& find_nccl) {
  if (find_nccl != nullptr) return find_nccl();
  return Missing("this worker has no NCCL");
}

absl::Status CheckNcclDevice(const NcclTable& table, int32_t device) {
  int32_t count = 0;
  const int32_t code = table.device_count(table.self, &count);
  const absl::Status counted = NcclStatus(table, nullptr, code, "looking for GPUs");
  if (!counted.ok()) {
    return Missing(absl::StrCat("no GPU can be used: ", counted.message(),
                                "; install the driver that nvidia-smi needs, or use cpu devices"));
  }
  if (device >= 0 && device < count) return absl::OkStatus();
  return Missing(absl::StrCat("gpu:", device, " is not there: this machine has ", count,
                              " GPUs; use those that nvidia-smi lists"));
}

absl::Status NcclStatus(const NcclTable& table, NcclContext* context, int32_t code,
                        absl::string_view doing) {
  if (code == kNcclDone || code == kNcclUnderWay) return absl::OkStatus();
  std::array<char, 512> words = {};
  table.error_words(context, code, words.data(), words.size());
  return MakeError(absl::StatusCode::kUnavailable, absl::StrCat(doing, ": ", words.data()),
                   proto::TRANSIENT);
}

std::string NcclVersionWords(int32_t version) {
  return absl::StrCat(version / 10000, ".", version / 100 % 100, ".", version % 100);
}

}  // namespace cohort
