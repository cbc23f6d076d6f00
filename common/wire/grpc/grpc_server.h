#pragma once

// The server side of the gRPC transport. Internal to common/wire.

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
  // The name of the server's unix socket, which is told to clients that ask (auto_transport.h).
  // Empty: the server has no such socket.
  std::string local_name = "";
  // The server's name in greetings, which is told to clients that ask (stream_greeting.h). Empty:
  // the server's port takes no frames.
  std::string stream_name = "";
  bool listens = true;  // false: the server only serves connections that are passed to Take
};

// A server that speaks gRPC. Thread-safe.
class GrpcServer : public Server {
 public:
  // Serves a connection from which `first_bytes` were read already. Only for a server that does not
  // listen itself.
  virtual void Take(UniqueFd socket, const std::string& first_bytes) = 0;
};

// Starts a gRPC server. Errors: those of GrpcTransport::Listen.
absl::StatusOr<std::unique_ptr<GrpcServer>> StartGrpcServer(GrpcServerOptions options);

}  // namespace cohort
