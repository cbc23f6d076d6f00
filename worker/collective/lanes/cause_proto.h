#pragma once

#include "proto/collective.pb.h"
#include "worker/collective/lanes/peer_links.h"

namespace cohort {

proto::GroupAbortCause ToProto(const AbortCause& cause);
// Reads a cause; a code that is not an error becomes INTERNAL.
AbortCause FromProto(const proto::GroupAbortCause& cause);

}  // namespace cohort
