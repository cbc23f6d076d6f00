#include "tests/bench/raw_tcp.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <vector>

#include "common/base/status.h"

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

absl::Status Broken() { return absl::UnavailableError("the raw TCP connection broke"); }

sockaddr_in Loopback(int port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return address;
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

absl::StatusOr<std::unique_ptr<RawTcpServer>> RawTcpServer::Start(size_t bytes_max) {
  const int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address = Loopback(0);
  socklen_t size = sizeof(address);
  auto* generic = reinterpret_cast<sockaddr*>(&address);
  if (listener < 0 || bind(listener, generic, size) != 0 || listen(listener, 4) != 0 ||
      getsockname(listener, generic, &size) != 0) {
    return ErrnoStatus(errno, "listening for raw TCP");
  }
  return std::unique_ptr<RawTcpServer>(
      new RawTcpServer(listener, ntohs(address.sin_port), bytes_max));
}

RawTcpServer::RawTcpServer(int listener, int port, size_t bytes_max)
    : listener_(listener), port_(port), thread_([this, bytes_max] { Serve(bytes_max); }) {
  pthread_setname_np(thread_.native_handle(), "raw-tcp");
}

RawTcpServer::~RawTcpServer() {
  shutdown(listener_, SHUT_RDWR);
  thread_.join();
  close(listener_);
}

void RawTcpServer::Serve(size_t bytes_max) {
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

absl::StatusOr<std::unique_ptr<RawTcpClient>> RawTcpClient::Connect(int port) {
  const int connection = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const sockaddr_in address = Loopback(port);
  if (connection < 0 ||
      connect(connection, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0) {
    return ErrnoStatus(errno, "connecting raw TCP");
  }
  SetNoDelay(connection);
  return std::unique_ptr<RawTcpClient>(new RawTcpClient(connection));
}

RawTcpClient::~RawTcpClient() { close(socket_); }

absl::Status RawTcpClient::Pull(absl::Span<std::byte> into) { return PullStream(into, 1); }
absl::Status RawTcpClient::Push(absl::Span<const std::byte> from) { return PushStream(from, 1); }

absl::Status RawTcpClient::PullStream(absl::Span<std::byte> into, int count) {
  const Request request{RawOp::kPull, into.size()};
  for (int i = 0; i < count; ++i) {
    if (!SendAll(socket_, &request, sizeof(request))) return Broken();
  }
  for (int i = 0; i < count; ++i) {
    if (!ReceiveAll(socket_, into.data(), into.size())) return Broken();
  }
  return absl::OkStatus();
}

absl::Status RawTcpClient::PushStream(absl::Span<const std::byte> from, int count) {
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
