#pragma once

// The serving end of calls in parts. Internal to common/wire: only its .cc files include this
// header.

#include <memory>

#include "common/wire/grpc/grpc_dispatcher.h"
#include "common/wire/grpc/grpc_served_call.h"

namespace cohort {

void ServeParts(std::unique_ptr<GrpcIncoming> call,
                const std::shared_ptr<const GrpcDispatcher>& dispatcher);

}  // namespace cohort
