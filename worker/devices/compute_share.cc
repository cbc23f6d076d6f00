#include "worker/devices/compute_share.h"

#include <algorithm>
#include <string>

#include "common/cluster/address.h"

namespace cohort {

namespace {

// Returns the host in an address, or the whole text if it cannot be parsed.
std::string HostOf(const std::string& text) {
  const absl::StatusOr<Address> address = ParseAddress(text);
  // The address of a unix socket has no host, so its text stands for one.
  return address.ok() ? address->host : text;
}

}  // namespace

int ComputeShare(const ClusterSpec& cluster, TaskId own, int processors) {
  const absl::StatusOr<std::string> own_address = cluster.Address(own);
  int sharing = 0;
  // Only workers share the processors; coordinators and parameter servers are not counted.
  for (const auto& [task, address] : cluster.tasks()) {
    if (task.role != Role::kWorker || !own_address.ok()) continue;
    if (HostOf(address) == HostOf(*own_address)) ++sharing;
  }
  // A worker has at least one thread, even if its host has more workers than processors.
  return std::max(1, processors / std::max(1, sharing));
}

}  // namespace cohort
