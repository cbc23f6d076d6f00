#pragma once

// A transport that serves every client over gRPC, and uses a faster way if both ends have one. A
// server's port takes gRPC and frames over plain TCP (shared_port.h); in addition, the server has a
// local socket with a random name. A client's data lane asks for the server's names with its first
// calls. If the client can connect to the local socket, both ends share a kernel, and later calls
// go over the socket: payloads lie in memory that both ends map, or travel on the socket if one end
// has no such memory. Otherwise later calls go over plain TCP as soon as the connections exist and
// the server has answered on them (tcp_route.h); no call waits for these connections. When the
// faster connection ends, calls go over gRPC and ask for the names again. The control lane stays on
// gRPC.
//
// With kTcp a server has no local socket, and a client uses none. With kShm or kUnix all calls of
// the data lane go the named way, and peers that lack it are refused (local_only_channel.h).

#include <memory>
#include <string>
#include <vector>

#include "common/cluster/transport_kind.h"
#include "common/wire/frame_limits.h"
#include "common/wire/transport.h"

namespace cohort {

class LocalServer;
struct LocalLoops;

// A transport over gRPC, frames over TCP and local sockets, as far as the options allow. Servers
// and channels may outlive the transport. Thread-safe.
class AutoTransport final : public Transport {
 public:
  struct Options {
    size_t message_bytes_max = kMessageBytesMax;  // limit of header and payload of one message
    // The kind of transport: any but kGrpc, for which there is GrpcTransport.
    TransportKind kind = TransportKind::kAuto;
  };

  AutoTransport();
  explicit AutoTransport(Options options);
  ~AutoTransport() override;

  // Serves `services` at `address`. Errors: those of GrpcTransport::Listen. If the host gives no
  // local socket, kAuto serves without one; kShm and kUnix fail with what is missing: UNAVAILABLE,
  // RESOURCE_EXHAUSTED.
  absl::StatusOr<std::unique_ptr<Server>> Listen(const std::string& address,
                                                 std::vector<Service> services) override;
  std::shared_ptr<Channel> Connect(const std::string& address, Lane lane) override;
  AllocateBuffer MemoryToSend() const override;

 private:
  absl::StatusOr<std::unique_ptr<LocalServer>> ListenLocally(const std::string& address,
                                                             const std::vector<Service>& services,
                                                             std::string& name);

  const Options options_;
  // Threads and memory, shared with servers and channels, which may outlive the transport.
  const std::unique_ptr<const LocalLoops> loops_;
};

}  // namespace cohort
