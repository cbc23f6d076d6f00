#pragma once

// Lanes over the transport of the worker: gRPC, shared memory, in-process or simulated. Frames
// travel on connections of their own, and all other messages on control connections, so that an
// abort never waits behind a tensor.

#include <memory>
#include <string>
#include <vector>

#include "common/wire/transport.h"
#include "worker/collective/collective_errors.h"
#include "worker/collective/lanes/peer_links.h"

namespace cohort {

struct WireLanesOptions {
  GroupName group;
  int rank = 0;
  std::vector<std::string> addresses;  // the address of each rank
};

// Makes the links of a rank over `transport`, which outlives them. Destroying the links ends their
// watches; frames under way go on.
std::unique_ptr<PeerLinks> MakeWireLanes(Transport& transport, WireLanesOptions options);

// Returns the hash of the group's name, which stands for the name in messages.
uint64_t GroupHash(const GroupName& group);

}  // namespace cohort
