#pragma once

// The settings of gRPC's connections, each with its reason. Internal to common/wire.

#include <grpcpp/server_builder.h>
#include <grpcpp/support/channel_arguments.h>

#include "common/wire/transport.h"

namespace cohort {

grpc::ChannelArguments ChannelSettings(Lane lane, size_t message_bytes_max);
void ApplyServerSettings(size_t message_bytes_max, grpc::ServerBuilder& builder);

}  // namespace cohort
