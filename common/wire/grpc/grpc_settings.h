#pragma once

// The settings of gRPC's connections, and the settings of gRPC that hold for the whole process,
// each with its reason. Internal to common/wire.

#include <grpcpp/server_builder.h>
#include <grpcpp/support/channel_arguments.h>

#include "common/wire/transport.h"

namespace cohort {

grpc::ChannelArguments ChannelSettings(Lane lane, size_t message_bytes_max);
void ApplyServerSettings(size_t message_bytes_max, grpc::ServerBuilder& builder);

// Sets the options of gRPC and Abseil that are global to the process; a second call changes
// nothing. gRPC's own log lines become debug lines of this process's log, because gRPC also reports
// every problem as the status of a call or of Listen. Abseil's search for deadlocks is turned off,
// because it looks up every lock of gRPC in a graph. (Debian builds Abseil with this search.)
void SetUpGrpc();

}  // namespace cohort
