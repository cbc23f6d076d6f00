#pragma once

// A group whose ranks have a GPU each and use NCCL: the counterpart of FormGroup (form_group.h),
// whose ranks compute on the processor. There is no fallback. If NCCL cannot be used, every call of
// the communicator ends with the reason, on all ranks.

#include <string>

#include "absl/functional/any_invocable.h"
#include "worker/collective/nccl/nccl_communicator.h"
#include "worker/gang/form_group.h"

namespace cohort {

struct FormNcclGroupOptions {
  LaneGroupOptions group;
  std::vector<std::string> addresses;  // one address per rank
  int device = 0;                      // CUDA's number of this rank's GPU
  // Functions of NCCL, or the reason why there are none: LoadNccl(NcclModulePath()).
  absl::StatusOr<const NcclTable*> table;
};

// Forms a group over NCCL. `formed` runs once, on the executor, when the ranks have joined NCCL or
// have failed to join; FormedGroup::how then names the device or the error.
void FormNcclGroup(const GroupResources& resources, FormNcclGroupOptions options,
                   absl::AnyInvocable<void(FormedGroup)> formed);

}  // namespace cohort
