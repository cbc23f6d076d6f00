#pragma once

// Calls over gRPC: every handler is a unary method that any gRPC client can call, beside the
// standard health and reflection services. Handlers and completions run on the threads of
// grpc_loop.h, which all of this process share. Each channel is a connection of its own. No call
// is retried here.

#include <memory>
#include <string>
#include <vector>

#include "common/wire/frame_limits.h"
#include "common/wire/receive_pool.h"
#include "common/wire/transport.h"

namespace cohort {

// Servers and channels may outlive the transport. Thread-safe.
class GrpcTransport final : public Transport {
 public:
  struct Options {
    size_t message_bytes_max = kMessageBytesMax;  // header and payload of one message
  };

  GrpcTransport();
  explicit GrpcTransport(Options options);

  // Errors: UNAVAILABLE naming the address when it is in use or not of this machine;
  // INVALID_ARGUMENT for one without a port.
  absl::StatusOr<std::unique_ptr<Server>> Listen(const std::string& address,
                                                 std::vector<Service> services) override;
  std::shared_ptr<Channel> Connect(const std::string& address, Lane lane) override;

 private:
  const Options options_;
  // shared by its channels
  const std::shared_ptr<ReceivePool> pool_ = std::make_shared<ReceivePool>();
};

}  // namespace cohort
