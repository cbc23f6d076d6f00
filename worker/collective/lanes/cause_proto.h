#pragma once

#include "proto/collective.pb.h"
#include "worker/collective/lanes/peer_links.h"

namespace cohort {

proto::GroupAbortCause ToProto(const AbortCause& cause);
// A cause without a code that means an error is INTERNAL.
AbortCause FromProto(const proto::GroupAbortCause& cause);

}  // namespace cohort
