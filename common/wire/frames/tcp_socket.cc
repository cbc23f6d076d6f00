#include "common/wire/frames/tcp_socket.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/socket.h>

#include <memory>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/strip.h"
#include "common/base/status.h"
#include "common/cluster/address.h"

namespace cohort {

namespace {

constexpr int kBacklog = 4096;

// The times after which a silent peer counts as dead: how long the peer's host may leave sent bytes
// unconfirmed, and how often an idle connection is probed. The values equal those of gRPC's
// connections (grpc_settings.cc).
struct Patience {
  int unanswered_ms_max;
  int keepalive_idle_seconds;
  int keepalive_interval_seconds;
  int keepalive_probes;
};
constexpr Patience kCaller = {5'000, 2, 1, 5};  // 5 s is the default lease of tasks
constexpr Patience kServer = {30'000, 10, 5, 4};

constexpr int kConnectFlags = SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK;

void Set(const UniqueFd& socket, int level, int option, int value) {
  // The result is ignored, because the system may not know an option. The connection works without
  // the option.
  setsockopt(socket.get(), level, option, &value, sizeof(value));
}

// Sets the socket options by which a dead peer is found, and the option that sends small frames
// without delay.
void Tune(const UniqueFd& socket, const Patience& patience) {
  Set(socket, IPPROTO_TCP, TCP_NODELAY, 1);
  Set(socket, SOL_SOCKET, SO_KEEPALIVE, 1);
  Set(socket, IPPROTO_TCP, TCP_KEEPIDLE, patience.keepalive_idle_seconds);
  Set(socket, IPPROTO_TCP, TCP_KEEPINTVL, patience.keepalive_interval_seconds);
  Set(socket, IPPROTO_TCP, TCP_KEEPCNT, patience.keepalive_probes);
  Set(socket, IPPROTO_TCP, TCP_USER_TIMEOUT, patience.unanswered_ms_max);
}

// A socket address as the operating system takes it.
struct SocketAddress {
  sockaddr_storage storage = {};
  socklen_t size = 0;
  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&storage); }
};

SocketAddress CopyOf(const void* address, size_t size) {
  SocketAddress copy;
  memcpy(&copy.storage, address, size);
  copy.size = static_cast<socklen_t>(size);
  return copy;
}

void SetPort(SocketAddress& address, int port) {
  const in_port_t number = htons(static_cast<uint16_t>(port));
  if (address.storage.ss_family == AF_INET6) {
    reinterpret_cast<sockaddr_in6&>(address.storage).sin6_port = number;
  } else {
    reinterpret_cast<sockaddr_in&>(address.storage).sin_port = number;
  }
}

int PortOf(const UniqueFd& socket) {
  sockaddr_storage storage = {};
  socklen_t size = sizeof(storage);
  if (getsockname(socket.get(), reinterpret_cast<sockaddr*>(&storage), &size) != 0) return 0;
  return ntohs(storage.ss_family == AF_INET6
                   ? reinterpret_cast<const sockaddr_in6&>(storage).sin6_port
                   : reinterpret_cast<const sockaddr_in&>(storage).sin_port);
}

bool IsWildcard(const std::string& host) { return host == "0.0.0.0" || host == "::"; }

// Returns the addresses that stand for all interfaces: first that of IPv6, whose socket serves both
// families, and then that of IPv4, for machines without IPv6.
std::vector<SocketAddress> Wildcards() {
  sockaddr_in6 six = {};
  six.sin6_family = AF_INET6;
  six.sin6_addr = in6addr_any;
  sockaddr_in four = {};
  four.sin_family = AF_INET;
  four.sin_addr.s_addr = htonl(INADDR_ANY);
  return {CopyOf(&six, sizeof(six)), CopyOf(&four, sizeof(four))};
}

absl::StatusOr<std::vector<SocketAddress>> AddressesOf(const std::string& host) {
  addrinfo hints = {};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_PASSIVE;
  addrinfo* found = nullptr;
  if (const int failure = getaddrinfo(host.c_str(), nullptr, &hints, &found); failure != 0) {
    return absl::UnavailableError(gai_strerror(failure));
  }
  const std::unique_ptr<addrinfo, void (*)(addrinfo*)> owned(found, freeaddrinfo);
  std::vector<SocketAddress> addresses;
  for (const addrinfo* next = found; next != nullptr; next = next->ai_next) {
    addresses.push_back(CopyOf(next->ai_addr, next->ai_addrlen));
  }
  return addresses;
}

absl::StatusOr<UniqueFd> ListenOn(const SocketAddress& address, bool both_families) {
  UniqueFd fd(socket(address.storage.ss_family, kConnectFlags, 0));
  if (!fd.ok()) return absl::UnavailableError(strerror(errno));
  // With SO_REUSEADDR, a restarted task can listen on its port while its old connections still
  // close.
  Set(fd, SOL_SOCKET, SO_REUSEADDR, 1);
  if (address.storage.ss_family == AF_INET6) {
    Set(fd, IPPROTO_IPV6, IPV6_V6ONLY, both_families ? 0 : 1);
  }
  if (bind(fd.get(), address.get(), address.size) != 0 || listen(fd.get(), kBacklog) != 0) {
    return absl::UnavailableError(strerror(errno));
  }
  return fd;
}

absl::Status CannotListen(const std::string& address, absl::string_view why) {
  return absl::UnavailableError(
      absl::StrCat("cannot listen on ", address, ": ", why,
                   ": the address is in use or not of this machine; choose another port or stop "
                   "the process that holds it"));
}

}  // namespace

absl::StatusOr<TcpListeners> ListenTcp(const std::string& address) {
  const absl::StatusOr<Address> parsed = ParseAddress(address);
  if (!parsed.ok() || !parsed->unix_path.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("address '", address, "' to listen on has no port; use host:port"));
  }
  const bool wildcard = IsWildcard(parsed->host);
  absl::StatusOr<std::vector<SocketAddress>> hosts =
      wildcard ? Wildcards() : AddressesOf(parsed->host);
  if (!hosts.ok()) return CannotListen(address, hosts.status().message());
  TcpListeners listeners;
  listeners.port = parsed->port;
  absl::Status failure = absl::UnavailableError("the name has no address");
  for (SocketAddress& host : *hosts) {
    // If the port is 0, the first socket gets a free port, and the later sockets get that port.
    SetPort(host, listeners.port);
    absl::StatusOr<UniqueFd> socket = ListenOn(host, wildcard);
    if (!socket.ok()) {
      failure = socket.status();
      continue;
    }
    listeners.port = PortOf(*socket);
    listeners.sockets.push_back(*std::move(socket));
    // For a wildcard host, the first socket serves both IPv4 and IPv6.
    if (wildcard) break;
  }
  if (listeners.sockets.empty()) return CannotListen(address, failure.message());
  return listeners;
}

UniqueFd AcceptTcp(const UniqueFd& listener) {
  UniqueFd fd(accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
  if (fd.ok()) Tune(fd, kServer);
  return fd;
}

absl::StatusOr<UniqueFd> BeginConnectTcp(absl::string_view peer) {
  SocketAddress address;
  absl::string_view text = peer;
  const bool six = absl::ConsumePrefix(&text, "ipv6:");
  const bool four = !six && absl::ConsumePrefix(&text, "ipv4:");
  // gRPC writes the brackets of an IPv6 address in percent encoding.
  const absl::StatusOr<Address> parsed =
      ParseAddress(absl::StrReplaceAll(text, {{"%5B", "["}, {"%5D", "]"}}));
  sockaddr_in6 of_six = {};
  sockaddr_in of_four = {};
  of_six.sin6_family = AF_INET6;
  of_four.sin_family = AF_INET;
  if (six && parsed.ok() && inet_pton(AF_INET6, parsed->host.c_str(), &of_six.sin6_addr) == 1) {
    address = CopyOf(&of_six, sizeof(of_six));
  } else if (four && parsed.ok() &&
             inet_pton(AF_INET, parsed->host.c_str(), &of_four.sin_addr) == 1) {
    address = CopyOf(&of_four, sizeof(of_four));
  } else {
    return absl::InvalidArgumentError(absl::StrCat("the peer '", peer, "' is not a TCP address"));
  }
  SetPort(address, parsed->port);
  UniqueFd fd(socket(address.storage.ss_family, kConnectFlags, 0));
  if (!fd.ok()) return absl::UnavailableError(strerror(errno));
  Tune(fd, kCaller);
  // EINPROGRESS is not a failure: the socket becomes writable when connecting has succeeded or
  // failed.
  if (connect(fd.get(), address.get(), address.size) != 0 && errno != EINPROGRESS) {
    return absl::UnavailableError(strerror(errno));
  }
  return fd;
}

std::string TcpPeerOf(const UniqueFd& socket) {
  sockaddr_storage storage = {};
  socklen_t size = sizeof(storage);
  auto* const address = reinterpret_cast<sockaddr*>(&storage);
  char host[NI_MAXHOST] = {};
  char port[NI_MAXSERV] = {};
  if (getpeername(socket.get(), address, &size) != 0 ||
      getnameinfo(address, size, host, sizeof(host), port, sizeof(port),
                  NI_NUMERICHOST | NI_NUMERICSERV) != 0) {
    return "a peer that is gone";
  }
  const bool six = storage.ss_family == AF_INET6;
  return absl::StrCat(six ? "[" : "", host, six ? "]" : "", ":", port);
}

absl::Status ConnectedTcp(const UniqueFd& socket) {
  int reason = 0;
  socklen_t size = sizeof(reason);
  // SO_ERROR holds the reason why connecting failed, or 0.
  if (getsockopt(socket.get(), SOL_SOCKET, SO_ERROR, &reason, &size) != 0) reason = errno;
  if (reason == 0) return absl::OkStatus();
  return absl::UnavailableError(strerror(reason));
}

}  // namespace cohort
