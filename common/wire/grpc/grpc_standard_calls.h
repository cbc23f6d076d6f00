#pragma once

// The services that every gRPC server has for clients that are not ours: health and reflection.
// Internal to common/wire: only its .cc files include it.

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "common/wire/grpc/grpc_served_call.h"

namespace cohort {

// The state of one server's standard services. Thread-safe.
struct GrpcStandardServices {
  std::vector<std::string> names;  // names of all services of the server
  std::atomic<bool> serving{true};
};

// Returns the names of the standard services, which are among a server's names.
std::vector<std::string> StandardServiceNames();

// Serves the call if it is one of theirs; else leaves it.
bool ServeStandardCall(std::unique_ptr<GrpcIncoming>& call,
                       const std::shared_ptr<const GrpcStandardServices>& services);

}  // namespace cohort
