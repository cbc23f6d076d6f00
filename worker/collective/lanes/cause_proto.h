#pragma once

#include "proto/collective.pb.h"
#include "worker/collective/lanes/peer_links.h"

namespace cohort {

proto::GroupAbortCause ToProto(const AbortCause& cause);
// Reads a cause from its message. A code that is not an error code becomes INTERNAL.
AbortCause FromProto(const proto::GroupAbortCause& cause);

}  // namespace cohort
