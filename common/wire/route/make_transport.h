#pragma once

#include <memory>

#include "common/cluster/transport_kind.h"
#include "common/wire/transport.h"

namespace cohort {

// Returns the transport of a program that serves or calls other processes. The transport's calls
// end with it, and its channels replace connections that do not answer any more
// (renewed_channel.h).
std::unique_ptr<Transport> MakeTransport(TransportKind kind);

}  // namespace cohort
