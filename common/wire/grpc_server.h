#pragma once

// Internal to common/wire.

#include <memory>
#include <string>
#include <vector>

#include "common/wire/transport.h"

namespace cohort {

struct GrpcServerOptions {
  std::string address;
  std::vector<Service> services;
  size_t message_bytes_max = 0;
  std::string local_name;  // told to clients that ask (local_transport.h); empty: none
};

// Errors: as GrpcTransport::Listen.
absl::StatusOr<std::unique_ptr<Server>> StartGrpcServer(GrpcServerOptions options);

}  // namespace cohort
