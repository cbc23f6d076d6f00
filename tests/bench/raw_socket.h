#pragma once

// The plainest use of a socket, as the reference of the transport figures: a request is 16 bytes
// (what to do, how many bytes), then bytes go one way, then one byte comes back for a push.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <thread>

#include "absl/status/statusor.h"
#include "absl/types/span.h"

namespace cohort::bench {

enum class RawOp : uint64_t { kPull = 1, kPush = 2 };

// Serves one connection after another on a thread of its own. Thread-safe.
class RawServer {
 public:
  // At a free loopback port, or as a unix socket.
  static absl::StatusOr<std::unique_ptr<RawServer>> StartTcp(size_t bytes_max);
  static absl::StatusOr<std::unique_ptr<RawServer>> StartUnix(size_t bytes_max);
  ~RawServer();
  // For Connect: a port, or a name with a colon.
  const std::string& address() const { return address_; }

 private:
  RawServer(int listener, std::string address, size_t bytes_max);
  void Serve(size_t bytes_max);

  const int listener_;
  const std::string address_;
  std::thread thread_;
};

// Thread-compatible.
class RawClient {
 public:
  static absl::StatusOr<std::unique_ptr<RawClient>> Connect(const std::string& address);
  ~RawClient();

  // Message and answer.
  absl::Status Pull(absl::Span<std::byte> into);
  absl::Status Push(absl::Span<const std::byte> from);
  // `count` messages without waiting between them; the answers are read after the last.
  absl::Status PullStream(absl::Span<std::byte> into, int count);
  absl::Status PushStream(absl::Span<const std::byte> from, int count);

 private:
  explicit RawClient(int socket) : socket_(socket) {}
  const int socket_;
};

}  // namespace cohort::bench
