#include "coordinator/schedule/worker_run.h"

#include <algorithm>

#include "common/cluster/cluster_spec.h"
#include "common/wire/error_detail.h"

namespace cohort {

const GangMember* WorkerRun::Member(int worker) const {
  const auto found = std::find_if(members.begin(), members.end(), [&](const GangMember& member) {
    return member.worker == worker;
  });
  return found == members.end() ? nullptr : &*found;
}

const GangMember* WorkerRun::AtFault(const absl::Status& status) const {
  const proto::TaskRef origin = DetailOf(status).origin();
  // An error of a parameter server is not the fault of a member, because members are workers.
  if (origin.role() != RoleName(Role::kWorker)) return nullptr;
  return Member(origin.index());
}

}  // namespace cohort
