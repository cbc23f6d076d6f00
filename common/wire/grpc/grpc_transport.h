#pragma once

// Calls over gRPC. Every handler is a unary method that any gRPC client can call; each server also
// has gRPC's standard health and reflection services. Handlers and completions run on the threads
// of grpc_loop.h, which all transports of the process share. Each channel has connections of its
// own. The transport does not retry calls.

#include <memory>
#include <string>
#include <vector>

#include "common/wire/frame_limits.h"
#include "common/wire/receive_memory.h"
#include "common/wire/transport.h"

namespace cohort {

// A transport over gRPC alone. Servers and channels may outlive the transport. Thread-safe.
class GrpcTransport final : public Transport {
 public:
  struct Options {
    size_t message_bytes_max = kMessageBytesMax;  // limit of header and payload of one message
  };

  GrpcTransport();
  explicit GrpcTransport(Options options);

  // Serves `services` at `address`. Errors: UNAVAILABLE naming the address if the address is in use
  // or does not belong to this machine; INVALID_ARGUMENT for an address without a port.
  absl::StatusOr<std::unique_ptr<Server>> Listen(const std::string& address,
                                                 std::vector<Service> services) override;
  std::shared_ptr<Channel> Connect(const std::string& address, Lane lane) override;

 private:
  const Options options_;
  // The pool for the memory of received payloads. Shared with the transport's channels.
  const std::shared_ptr<ReceivePool> pool_ = std::make_shared<ReceivePool>();
};

}  // namespace cohort
