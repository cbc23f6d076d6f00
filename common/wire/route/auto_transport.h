#pragma once

// A transport that serves every client over gRPC, and uses a faster way if both ends have one. A
// server's port takes gRPC and frames over plain TCP (shared_port.h). In addition, the server has a
// unix socket with a random name.
//
// A client's channel for kData or kFrames asks for the server's names with its first calls. If the
// client can connect to the unix socket, both processes share a kernel, and later calls go over the
// socket: payloads lie in memory that both processes map, or travel on the socket if one of them
// maps no such memory. Otherwise later calls go over plain TCP as soon as the connections exist and
// the server has answered on them (tcp_route.h); no call waits for these connections. When the
// faster connection ends, calls go over gRPC and ask for the names again. Channels for kControl
// always use gRPC.
//
// With kTcp, a server has no unix socket, and a client uses none. With kShm or kUnix, all calls but
// control calls go in the named way, and peers that do not offer this way are refused
// (local_only_channel.h).

#include <memory>
#include <string>
#include <vector>

#include "common/cluster/transport_kind.h"
#include "common/wire/frame_limits.h"
#include "common/wire/transport.h"

namespace cohort {

class LocalServer;
struct LocalLoops;

// A transport over gRPC, TCP with frames, and unix sockets, as far as the options allow. Servers
// and channels may outlive the transport. Thread-safe.
class AutoTransport final : public Transport {
 public:
  struct Options {
    size_t message_bytes_max = kMessageBytesMax;  // limit of header and payload of one message
    // Any kind of transport except kGrpc, for which there is GrpcTransport.
    TransportKind kind = TransportKind::kAuto;
  };

  AutoTransport();
  explicit AutoTransport(Options options);
  ~AutoTransport() override;

  // Serves `services` at `address`. Errors: those of GrpcTransport::Listen. If the host gives no
  // unix socket, kAuto serves without one, but kShm and kUnix fail. kShm also fails without shared
  // memory. The error is UNAVAILABLE or RESOURCE_EXHAUSTED, and says what is missing.
  absl::StatusOr<std::unique_ptr<Server>> Listen(const std::string& address,
                                                 std::vector<Service> services) override;
  std::shared_ptr<Channel> Connect(const std::string& address, Lane lane) override;
  AllocateBuffer MemoryToSend() const override;

 private:
  absl::StatusOr<std::unique_ptr<LocalServer>> ListenLocally(const std::string& address,
                                                             const std::vector<Service>& services,
                                                             std::string& name);

  const Options options_;
  // Threads and memory. Shared with servers and channels, which may outlive the transport.
  const std::unique_ptr<const LocalLoops> loops_;
};

}  // namespace cohort
