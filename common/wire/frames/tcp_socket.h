#pragma once

// TCP sockets of this project's own, beside those that gRPC makes. Internal to common/wire.

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "common/base/unique_fd.h"

namespace cohort {

struct TcpListeners {
  std::vector<UniqueFd> sockets;  // one for each address that the host's name has
  int port = 0;                   // the same for all listeners
};

// Listens on "host:port", as gRPC does: 0.0.0.0 and [::] take every interface, of IPv4 and IPv6;
// port 0 takes a free one. Resolves names, which may block. All sockets are non-blocking. Errors:
// INVALID_ARGUMENT for an address without a port; UNAVAILABLE naming the address when it is in use
// or not of this machine.
absl::StatusOr<TcpListeners> ListenTcp(const std::string& address);

// Returns the next connection, or a descriptor that is not ok() if none waits.
UniqueFd AcceptTcp(const UniqueFd& listener);

// Begins to connect to what gRPC calls a peer, "ipv4:10.0.0.7:2222" or "ipv6:%5B::1%5D:2222"; the
// socket is writable when that has ended. Errors: INVALID_ARGUMENT for a peer of another kind;
// UNAVAILABLE.
absl::StatusOr<UniqueFd> BeginConnectTcp(absl::string_view peer);

// Returns the address of the other end, "10.0.0.7:41022", or "a peer that is gone" if the system
// does not say.
std::string TcpPeerOf(const UniqueFd& socket);

// Returns how connecting ended. Errors: UNAVAILABLE with the system's reason.
absl::Status ConnectedTcp(const UniqueFd& socket);

}  // namespace cohort
