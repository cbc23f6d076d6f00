#pragma once

// Lanes over the transport that the worker has: gRPC, shared memory, in-process or simulated.
// Frames go over lanes of frames, the rest over control connections, so that an abort never waits
// behind a tensor.

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
  std::vector<std::string> addresses;  // one per rank
};

// Makes the links over a transport, which outlives them. Frames under way at the end go on; watches
// end.
std::unique_ptr<PeerLinks> MakeWireLanes(Transport& transport, WireLanesOptions options);

// Returns the group's number on the wire.
uint64_t GroupHash(const GroupName& group);

}  // namespace cohort
