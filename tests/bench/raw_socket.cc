#include "tests/bench/raw_socket.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "common/base/status.h"
#include "common/wire/frames/local_socket.h"

namespace cohort::bench {

namespace {

struct Request {
  RawOp op = RawOp::kPull;
  uint64_t bytes = 0;
};

bool SendAll(int socket, const void* data, size_t size) {
  const char* next = static_cast<const char*>(data);
  while (size > 0) {
    const ssize_t count = send(socket, next, size, MSG_NOSIGNAL);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return false;
    next += count;
    size -= static_cast<size_t>(count);
  }
  return true;
}

bool ReceiveAll(int socket, void* data, size_t size) {
  char* next = static_cast<char*>(data);
  while (size > 0) {
    const ssize_t count = recv(socket, next, size, 0);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return false;
    next += count;
    size -= static_cast<size_t>(count);
  }
  return true;
}

absl::Status Broken() { return absl::UnavailableError("the raw connection broke"); }

sockaddr_in Loopback(int port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return address;
}

// The length of the abstract name's address.
socklen_t UnixAddress(const std::string& name, sockaddr_un& address) {
  address.sun_family = AF_UNIX;
  std::copy(name.begin(), name.end(), address.sun_path + 1);
  return static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
}

void SetNoDelay(int socket) {
  const int one = 1;
  setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
}

void ServeConnection(int socket, std::vector<char>& memory) {
  Request request;
  while (ReceiveAll(socket, &request, sizeof(request))) {
    if (request.bytes > memory.size()) return;
    if (request.op == RawOp::kPull) {
      if (!SendAll(socket, memory.data(), request.bytes)) return;
    } else {
      const char ack = 1;
      if (!ReceiveAll(socket, memory.data(), request.bytes)) return;
      if (!SendAll(socket, &ack, 1)) return;
    }
  }
}

}  // namespace

absl::StatusOr<std::unique_ptr<RawServer>> RawServer::StartTcp(size_t bytes_max) {
  const int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address = Loopback(0);
  socklen_t size = sizeof(address);
  auto* generic = reinterpret_cast<sockaddr*>(&address);
  if (listener < 0 || bind(listener, generic, size) != 0 || listen(listener, 4) != 0 ||
      getsockname(listener, generic, &size) != 0) {
    return ErrnoStatus(errno, "listening for raw TCP");
  }
  return std::unique_ptr<RawServer>(
      new RawServer(listener, absl::StrCat(ntohs(address.sin_port)), bytes_max));
}

absl::StatusOr<std::unique_ptr<RawServer>> RawServer::StartUnix(size_t bytes_max) {
  const std::string name = "cohort-bench:" + NewSocketNumber();
  const int listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_un address{};
  const socklen_t size = UnixAddress(name, address);
  if (listener < 0 || bind(listener, reinterpret_cast<sockaddr*>(&address), size) != 0 ||
      listen(listener, 4) != 0) {
    return ErrnoStatus(errno, "listening on a raw unix socket");
  }
  return std::unique_ptr<RawServer>(new RawServer(listener, name, bytes_max));
}

RawServer::RawServer(int listener, std::string address, size_t bytes_max)
    : listener_(listener),
      address_(std::move(address)),
      thread_([this, bytes_max] { Serve(bytes_max); }) {
  pthread_setname_np(thread_.native_handle(), "raw-socket");
}

RawServer::~RawServer() {
  shutdown(listener_, SHUT_RDWR);
  thread_.join();
  close(listener_);
}

void RawServer::Serve(size_t bytes_max) {
  std::vector<char> memory(bytes_max, 1);
  while (true) {
    const int connection = accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
    if (connection < 0 && errno == EINTR) continue;
    if (connection < 0) return;
    SetNoDelay(connection);
    ServeConnection(connection, memory);
    close(connection);
  }
}

absl::StatusOr<std::unique_ptr<RawClient>> RawClient::Connect(const std::string& address) {
  sockaddr_storage storage{};
  socklen_t size = sizeof(sockaddr_in);
  int port = 0;
  const bool tcp = absl::SimpleAtoi(address, &port);
  if (tcp) {
    reinterpret_cast<sockaddr_in&>(storage) = Loopback(port);
  } else {
    size = UnixAddress(address, reinterpret_cast<sockaddr_un&>(storage));
  }
  const int connection = socket(tcp ? AF_INET : AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (connection < 0 ||
      connect(connection, reinterpret_cast<const sockaddr*>(&storage), size) != 0) {
    return ErrnoStatus(errno, "connecting a raw socket");
  }
  if (tcp) SetNoDelay(connection);
  return std::unique_ptr<RawClient>(new RawClient(connection));
}

RawClient::~RawClient() { close(socket_); }

absl::Status RawClient::Pull(absl::Span<std::byte> into) { return PullStream(into, 1); }
absl::Status RawClient::Push(absl::Span<const std::byte> from) { return PushStream(from, 1); }

absl::Status RawClient::PullStream(absl::Span<std::byte> into, int count) {
  const Request request{RawOp::kPull, into.size()};
  for (int i = 0; i < count; ++i) {
    if (!SendAll(socket_, &request, sizeof(request))) return Broken();
  }
  for (int i = 0; i < count; ++i) {
    if (!ReceiveAll(socket_, into.data(), into.size())) return Broken();
  }
  return absl::OkStatus();
}

absl::Status RawClient::PushStream(absl::Span<const std::byte> from, int count) {
  const Request request{RawOp::kPush, from.size()};
  for (int i = 0; i < count; ++i) {
    if (!SendAll(socket_, &request, sizeof(request))) return Broken();
    if (!SendAll(socket_, from.data(), from.size())) return Broken();
  }
  char ack = 0;
  for (int i = 0; i < count; ++i) {
    if (!ReceiveAll(socket_, &ack, 1)) return Broken();
  }
  return absl::OkStatus();
}

}  // namespace cohort::bench
