#pragma once

// gRPC for everybody, and something faster where both ends have it. A server's port takes gRPC and
// frames over plain TCP (shared_port.h), and beside it there is a local socket with a random name.
// A client's data lane asks for the server's names with its first calls. When it can connect to the
// local socket, both ends share a kernel, and its later calls go that way: payloads in memory that
// both map, or on the socket where one end gives no such memory. Else they go over plain TCP as
// soon as connections stand and the server has answered on them (tcp_route.h); no call waits for
// that. When the connection ends, calls go over gRPC and ask again. The control lane stays on gRPC.
//
// With kTcp a server has no local socket and a client uses none. With kShm or kUnix all of the data
// lane goes the named way, and other peers are refused (local_only_channel.h).

#include <memory>
#include <string>
#include <vector>

#include "common/cluster/transport_kind.h"
#include "common/wire/frame_limits.h"
#include "common/wire/transport.h"

namespace cohort {

class LocalServer;
struct LocalLoops;

// Servers and channels may outlive the transport. Thread-safe.
class AutoTransport final : public Transport {
 public:
  struct Options {
    size_t message_bytes_max = kMessageBytesMax;  // header and payload of one message
    TransportKind kind = TransportKind::kAuto;    // not kGrpc, which is GrpcTransport
  };

  AutoTransport();
  explicit AutoTransport(Options options);
  ~AutoTransport() override;

  // Errors: those of GrpcTransport::Listen. Without a local socket kAuto serves gRPC alone; kShm
  // and kUnix fail with what is missing: UNAVAILABLE, RESOURCE_EXHAUSTED.
  absl::StatusOr<std::unique_ptr<Server>> Listen(const std::string& address,
                                                 std::vector<Service> services) override;
  std::shared_ptr<Channel> Connect(const std::string& address, Lane lane) override;
  AllocateBuffer MemoryToSend() const override;

 private:
  absl::StatusOr<std::unique_ptr<LocalServer>> ListenLocally(const std::string& address,
                                                             const std::vector<Service>& services,
                                                             std::string& name);

  const Options options_;
  const std::unique_ptr<const LocalLoops> loops_;  // shared with what outlives this object
};

}  // namespace cohort
