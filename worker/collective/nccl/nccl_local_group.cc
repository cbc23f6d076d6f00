#include "worker/collective/nccl/nccl_local_group.h"

#include "common/base/status.h"
#include "worker/collective/nccl/nccl_library.h"

namespace cohort {

absl::StatusOr<std::unique_ptr<NcclLocalGroup>> NcclLocalGroup::Open(
    const NcclTable& table, const std::vector<int32_t>& gpus) {
  NcclLocal* local = nullptr;
  const int32_t code =
      table.open_local(table.self, static_cast<int32_t>(gpus.size()), gpus.data(), &local);
  RETURN_IF_ERROR(NcclStatus(table, nullptr, code, "joining the GPUs of this worker"));
  return std::unique_ptr<NcclLocalGroup>(new NcclLocalGroup(table, local));
}

NcclLocalGroup::~NcclLocalGroup() { table_.close_local(local_); }

absl::Status NcclLocalGroup::Sum(const std::vector<const float*>& values, int64_t count,
                                 float* sum) {
  const std::vector<const void*> send(values.begin(), values.end());
  const NcclRun run = {static_cast<uint64_t>(count), NcclType::kFloat32};
  return NcclStatus(table_, nullptr, table_.reduce_local(local_, send.data(), sum, run),
                    "adding up over the GPUs of this worker");
}

}  // namespace cohort
