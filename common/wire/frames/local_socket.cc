#include "common/wire/frames/local_socket.h"

#include <errno.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "common/base/status.h"

namespace cohort {

namespace {

constexpr int kBacklog = 4096;  // peers beyond the backlog are refused and stay on gRPC
constexpr int kPassedMax = 16;  // most descriptors that one read returns

// Returns the error of a failed socket call, with the reason in errno.
absl::Status Failure(absl::string_view what, const std::string& name) {
  const int reason = errno;
  const std::string text = absl::StrCat(what, " local socket ", name, ": ", strerror(reason));
  return reason == EADDRINUSE ? absl::AlreadyExistsError(text) : absl::UnavailableError(text);
}

absl::Status Gone(absl::string_view why) {
  return absl::UnavailableError(absl::StrCat("the local connection ended: ", why));
}

// Fills `address` with the abstract socket name and returns the address's length. The first byte of
// an abstract name is zero.
absl::StatusOr<socklen_t> AbstractAddress(const std::string& name, sockaddr_un& address) {
  if (name.empty() || name.size() + 1 > sizeof(address.sun_path)) {
    return absl::InvalidArgumentError(
        absl::StrCat("a local socket's name has 1 to 107 bytes: '", name, "'"));
  }
  address = {};
  address.sun_family = AF_UNIX;
  std::copy(name.begin(), name.end(), address.sun_path + 1);
  // The length counts only the bytes of the name: padding would be part of an abstract name.
  return static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
}

absl::StatusOr<UniqueFd> NewSocket(const std::string& name) {
  UniqueFd fd(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd.ok()) return Failure("making", name);
  return fd;
}

// Returns whether the process at the other end runs as the same user as this process.
bool SameUser(const UniqueFd& fd) {
  ucred peer = {};
  socklen_t size = sizeof(peer);
  return getsockopt(fd.get(), SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0 && peer.uid == geteuid();
}

// Moves the descriptors that arrived with a message to `passed`. Each of them is open in this
// process until it is closed.
void TakePassed(const msghdr& message, std::vector<UniqueFd>& passed) {
  for (const cmsghdr* part = CMSG_FIRSTHDR(&message); part != nullptr;
       part = CMSG_NXTHDR(const_cast<msghdr*>(&message), const_cast<cmsghdr*>(part))) {
    if (part->cmsg_level != SOL_SOCKET || part->cmsg_type != SCM_RIGHTS) continue;
    const size_t count = (part->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (size_t i = 0; i < count; ++i) {
      int fd = -1;
      memcpy(&fd, CMSG_DATA(part) + i * sizeof(int), sizeof(int));
      passed.emplace_back(fd);
    }
  }
}

}  // namespace

std::string NewSocketNumber() {
  uint64_t bits[2] = {};
  // getrandom always fills so few bytes at once. It blocks only while the machine boots.
  COHORT_CHECK(getrandom(bits, sizeof(bits), 0) == sizeof(bits), "the kernel has random bytes");
  return absl::StrCat(absl::Hex(bits[0], absl::kZeroPad16), absl::Hex(bits[1], absl::kZeroPad16));
}

absl::StatusOr<UniqueFd> ListenLocal(const std::string& name) {
  sockaddr_un address;
  ASSIGN_OR_RETURN(const socklen_t size, AbstractAddress(name, address));
  ASSIGN_OR_RETURN(UniqueFd fd, NewSocket(name));
  if (bind(fd.get(), reinterpret_cast<const sockaddr*>(&address), size) != 0 ||
      listen(fd.get(), kBacklog) != 0) {
    return Failure("listening on", name);
  }
  return fd;
}

absl::StatusOr<UniqueFd> ConnectLocal(const std::string& name) {
  sockaddr_un address;
  ASSIGN_OR_RETURN(const socklen_t size, AbstractAddress(name, address));
  ASSIGN_OR_RETURN(UniqueFd fd, NewSocket(name));
  if (connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), size) != 0) {
    return Failure("connecting to", name);
  }
  if (!SameUser(fd)) {
    return absl::UnavailableError(absl::StrCat("local socket ", name, " is of another user"));
  }
  return fd;
}

UniqueFd AcceptLocal(const UniqueFd& listener) {
  while (true) {
    UniqueFd fd(accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    // A connection from another user is closed at once, and the next connection is accepted.
    if (!fd.ok() || SameUser(fd)) return fd;
  }
}

absl::StatusOr<size_t> SendSome(const UniqueFd& socket, absl::Span<const char> bytes,
                                int passed_fd) {
  const iovec piece = {const_cast<char*>(bytes.data()), bytes.size()};
  return SendPieces(socket, absl::MakeConstSpan(&piece, 1), passed_fd);
}

absl::StatusOr<size_t> SendPieces(const UniqueFd& socket, absl::Span<const iovec> pieces,
                                  int passed_fd) {
  msghdr message = {};
  message.msg_iov = const_cast<iovec*>(pieces.data());
  message.msg_iovlen = pieces.size();
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  if (passed_fd >= 0) {
    message.msg_control = control;
    message.msg_controllen = sizeof(control);
    cmsghdr* const rights = CMSG_FIRSTHDR(&message);
    rights->cmsg_level = SOL_SOCKET;
    rights->cmsg_type = SCM_RIGHTS;
    rights->cmsg_len = CMSG_LEN(sizeof(int));
    memcpy(CMSG_DATA(rights), &passed_fd, sizeof(int));
  }
  while (true) {
    // With MSG_NOSIGNAL, sendmsg returns an error if the peer is gone, instead of raising SIGPIPE.
    const ssize_t sent = sendmsg(socket.get(), &message, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (sent >= 0) return static_cast<size_t>(sent);
    if (errno == EAGAIN || errno == EWOULDBLOCK) return size_t{0};
    if (errno != EINTR) return Gone(strerror(errno));
  }
}

absl::StatusOr<size_t> ReceiveSome(const UniqueFd& socket, absl::Span<char> buffer,
                                   std::vector<UniqueFd>& passed) {
  iovec part = {buffer.data(), buffer.size()};
  msghdr message = {};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  alignas(cmsghdr) char control[CMSG_SPACE(kPassedMax * sizeof(int))];
  while (true) {
    // recvmsg may change the fields msg_control and msg_controllen, so they are set before each
    // call.
    message.msg_control = control;
    message.msg_controllen = sizeof(control);
    const ssize_t received = recvmsg(socket.get(), &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    if (received > 0) {
      TakePassed(message, passed);
      return static_cast<size_t>(received);
    }
    if (received == 0) return Gone("closed by the other end");
    if (errno == EAGAIN || errno == EWOULDBLOCK) return size_t{0};
    if (errno != EINTR) return Gone(strerror(errno));
  }
}

}  // namespace cohort
