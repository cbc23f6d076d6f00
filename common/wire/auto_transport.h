#pragma once

// gRPC for everybody, and something faster between processes of one host. A server listens for gRPC
// and beside it on a local socket with a random name. A client's data lane asks for that name with
// its first calls; when it can connect there, both ends share a kernel, and its later calls go that
// way. When the local connection ends, calls go over gRPC and ask again. The control lane stays on
// gRPC, so that heartbeats see what a peer on another host would see.

#include <memory>
#include <string>
#include <vector>

#include "common/wire/frame_limits.h"
#include "common/wire/transport.h"

namespace cohort {

class IoLoop;

// Servers and channels may outlive the transport. Thread-safe.
class AutoTransport final : public Transport {
 public:
  struct Options {
    size_t message_bytes_max = kMessageBytesMax;  // header and payload of one message
  };

  AutoTransport();
  explicit AutoTransport(Options options);
  ~AutoTransport() override;

  // Errors: those of GrpcTransport::Listen. Without a local socket it serves gRPC alone.
  absl::StatusOr<std::unique_ptr<Server>> Listen(const std::string& address,
                                                 std::vector<Service> services) override;
  std::shared_ptr<Channel> Connect(const std::string& address, Lane lane) override;

 private:
  const Options options_;
  const std::shared_ptr<IoLoop> loop_;  // shared with what outlives this object
};

}  // namespace cohort
