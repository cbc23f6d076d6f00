#include "coordinator/daemon/free_ports.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/status.h"

namespace cohort {

namespace {

// Binds a socket to a free loopback port. The port, or a negative error number.
int BindFreePort(int socket_fd) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof(address);
  if (bind(socket_fd, reinterpret_cast<sockaddr*>(&address), size) != 0 ||
      getsockname(socket_fd, reinterpret_cast<sockaddr*>(&address), &size) != 0) {
    return -errno;
  }
  return ntohs(address.sin_port);
}

}  // namespace

absl::StatusOr<std::string> FreePortsText(int count) {
  // All sockets stay open until the end, so that the ports differ.
  std::vector<int> sockets;
  std::string text;
  absl::Status error;
  for (int i = 0; i < count && error.ok(); ++i) {
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const int port = fd < 0 ? -errno : BindFreePort(fd);
    if (fd >= 0) sockets.push_back(fd);
    if (port < 0) error = ErrnoStatus(-port, "cannot find a free port");
    absl::StrAppend(&text, port, "\n");
  }
  for (const int fd : sockets) close(fd);
  if (!error.ok()) return error;
  return text;
}

}  // namespace cohort
