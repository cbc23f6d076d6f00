#include "worker/service/own_cluster.h"

#include <string>

#include "common/base/log.h"
#include "common/cluster/address.h"

namespace cohort {

namespace {

// The most differences that are logged: a coordinator is restarted now and then, and a list from a
// peer has no end.
constexpr size_t kLoggedMax = 64;

}  // namespace

void OwnCluster::Compare(const google::protobuf::RepeatedPtrField<proto::Peer>& peers) {
  for (const proto::Peer& peer : peers) {
    const auto role = RoleFromName(peer.task().role());
    if (!role.ok()) continue;
    const TaskId task{*role, static_cast<int>(peer.task().index())};
    const auto own = own_.Address(task);
    if (!own.ok() || *own == peer.address()) continue;
    // A task at port 0 listens at a port that only the coordinator is told.
    const auto parsed = ParseAddress(*own);
    if (parsed.ok() && parsed->unix_path.empty() && parsed->port == 0) continue;
    if (logged_.size() >= kLoggedMax || !logged_.emplace(task, peer.address()).second) continue;
    Log(LogLevel::kWarning, "address_differs",
        {{"of", task.ToString()},
         {"here", *own},
         {"coordinator", peer.address()},
         {"effect", "the coordinator's address is used"},
         {"remedy", "give both the same cluster in TF_CONFIG"}});
  }
}

}  // namespace cohort
