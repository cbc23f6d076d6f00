#pragma once

// TCP sockets that this project opens itself, without gRPC. Internal to common/wire.

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "common/base/unique_fd.h"

namespace cohort {

struct TcpListeners {
  std::vector<UniqueFd> sockets;  // one socket for each address of the host's name
  int port = 0;                   // the port of all sockets
};

// Listens on "host:port" as gRPC does: the hosts 0.0.0.0 and [::] stand for all interfaces, with
// IPv4 and IPv6; port 0 takes a free port. Resolves the host's name, which may block. All sockets
// are non-blocking. Errors: INVALID_ARGUMENT for an address without a port; UNAVAILABLE naming the
// address if it is in use or does not belong to this machine.
absl::StatusOr<TcpListeners> ListenTcp(const std::string& address);

// Accepts the next connection at `listener`. Returns an invalid descriptor if no connection waits.
UniqueFd AcceptTcp(const UniqueFd& listener);

// Begins to connect to a peer in gRPC's notation, "ipv4:10.0.0.7:2222" or "ipv6:%5B::1%5D:2222".
// The returned socket becomes writable when connecting has succeeded or failed. Errors:
// INVALID_ARGUMENT if `peer` is not a TCP address; UNAVAILABLE if connecting fails at once.
absl::StatusOr<UniqueFd> BeginConnectTcp(absl::string_view peer);

// Returns the address of the socket's other end, such as "10.0.0.7:41022", or "a peer that is gone"
// if the system does not know the address.
std::string TcpPeerOf(const UniqueFd& socket);

// Returns OK if the socket has connected. Errors: UNAVAILABLE with the system's reason why
// connecting failed.
absl::Status ConnectedTcp(const UniqueFd& socket);

}  // namespace cohort
