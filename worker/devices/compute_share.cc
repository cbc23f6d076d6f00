#include "worker/devices/compute_share.h"

#include <algorithm>
#include <string>

#include "common/cluster/address.h"

namespace cohort {

namespace {

std::string HostOf(const std::string& text) {
  const absl::StatusOr<Address> address = ParseAddress(text);
  // A unix socket is always on this machine.
  return address.ok() ? address->host : text;
}

}  // namespace

int ComputeShare(const ClusterSpec& cluster, TaskId own, int processors) {
  const absl::StatusOr<std::string> own_address = cluster.Address(own);
  int sharing = 0;
  for (const auto& [task, address] : cluster.tasks()) {
    if (task.role != Role::kWorker || !own_address.ok()) continue;
    if (HostOf(address) == HostOf(*own_address)) ++sharing;
  }
  return std::max(1, processors / std::max(1, sharing));
}

}  // namespace cohort
