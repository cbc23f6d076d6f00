#pragma once

// Internal to common/wire.

#include <memory>
#include <string>
#include <vector>

#include "common/base/unique_fd.h"
#include "common/wire/transport.h"

namespace cohort {

struct GrpcServerOptions {
  std::string address;
  std::vector<Service> services;
  size_t message_bytes_max = 0;
  std::string local_name = "";   // told to clients that ask (local_transport.h); empty: none
  std::string stream_name = "";  // the same (stream_greeting.h)
  bool listens = true;           // else on connections alone that it is given
};

// Thread-safe.
class GrpcServer : public Server {
 public:
  // Serves a connection of which so many bytes were read already. Only where it does not listen.
  virtual void Take(UniqueFd socket, const std::string& first_bytes) = 0;
};

// Errors: as GrpcTransport::Listen.
absl::StatusOr<std::unique_ptr<GrpcServer>> StartGrpcServer(GrpcServerOptions options);

}  // namespace cohort
