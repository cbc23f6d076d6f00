#pragma once

#include <memory>

#include "common/cluster/transport_kind.h"
#include "common/wire/transport.h"

namespace cohort {

// Returns the transport of a program that serves or calls other processes. Its calls end with it,
// and its channels leave connections that no longer serve (renewed_channel.h).
std::unique_ptr<Transport> MakeTransport(TransportKind kind);

}  // namespace cohort
