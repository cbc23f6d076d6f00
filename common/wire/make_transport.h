#pragma once

#include <memory>

#include "common/cluster/transport_kind.h"
#include "common/wire/transport.h"

namespace cohort {

// The transport of a program that serves or calls other processes. Its calls end with it.
std::unique_ptr<Transport> MakeTransport(TransportKind kind);

}  // namespace cohort
