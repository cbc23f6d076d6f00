#pragma once

// The services that every gRPC server offers to clients outside this project: gRPC's health and
// reflection services. Internal to common/wire: only its .cc files include this header.

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

// Returns the names of the health and reflection services, for the list of a server's services.
std::vector<std::string> StandardServiceNames();

// Serves `call` and returns true if the call's method belongs to a standard service. Otherwise
// leaves `call` unchanged and returns false.
bool ServeStandardCall(std::unique_ptr<GrpcIncoming>& call,
                       const std::shared_ptr<const GrpcStandardServices>& services);

}  // namespace cohort
