#pragma once

// A group of ranks that have a GPU each, where NCCL is asked for: what FormGroup (form_group.h) is
// for ranks that compute on the CPU. There is no way out: where NCCL cannot be used, the
// communicator's calls end with why, on all ranks.

#include <string>

#include "absl/functional/any_invocable.h"
#include "worker/collective/nccl/nccl_communicator.h"
#include "worker/gang/form_group.h"

namespace cohort {

struct FormNcclGroupOptions {
  LaneGroupOptions group;
  std::vector<std::string> addresses;      // one per rank
  int device = 0;                          // CUDA's number of this rank's GPU
  absl::StatusOr<const NcclTable*> table;  // LoadNccl(NcclModulePath())
};

// Forms a group over NCCL. `formed` runs once, on the executor, when the ranks have joined NCCL or
// have failed to; its `how` names the device, or the error.
void FormNcclGroup(const GroupResources& resources, FormNcclGroupOptions options,
                   absl::AnyInvocable<void(FormedGroup)> formed);

}  // namespace cohort
