#pragma once

// A channel that gives up a connection that no longer works, and opens another one:
//
// - after a malformed message: bytes changed on the way, so later bytes cannot be trusted;
// - after kTimeoutsInARow calls in a row have timed out, and for kSilenceMax nothing was answered
//   and the connection made no progress (moved_bytes.h): the network may swallow the bytes, or the
//   receiver may have lost the start of a message. Short calls that time out beside a large message
//   of a slow link say nothing.
//
// The call with the malformed message ends with the error for it (error_detail.h). The other calls
// on the old connection end with UNAVAILABLE, as if the connection had broken. A call that cannot
// connect because this process may open no more files ends with RESOURCE_EXHAUSTED, and its error
// text names this cause.

#include <chrono>
#include <functional>
#include <memory>
#include <string>

#include "common/base/mutex.h"
#include "common/wire/open_calls.h"
#include "common/wire/transport.h"

namespace cohort {

// How long a connection may be silent while calls wait for answers. The time equals the default
// lease of tasks.
inline constexpr std::chrono::seconds kSilenceMax{5};
// The number of time-outs in a row after which a connection may be given up. One time-out does not
// suffice, because its caller may have given a single call too little time.
inline constexpr int kTimeoutsInARow = 2;

// A channel that replaces its connection when the connection no longer works. Thread-safe.
class RenewedChannel final : public Channel, public std::enable_shared_from_this<RenewedChannel> {
 public:
  using Time = std::chrono::steady_clock::time_point;
  struct Options {
    std::string address;  // address of the server, for error texts
    std::function<std::shared_ptr<Channel>()> open;
    std::function<Time()> now = std::chrono::steady_clock::now;
  };
  explicit RenewedChannel(Options options);

  std::unique_ptr<Call> Start(absl::string_view method, Message request, absl::Duration timeout,
                              Reply done) override;
  absl::Duration SinceProgress() const override;

 private:
  struct Line;
  class StartedCall;

  void Renew(const std::shared_ptr<Line>& line, const std::string& why);
  void CountTimeout(const std::shared_ptr<Line>& line);
  absl::StatusOr<Message> Judge(const std::shared_ptr<Line>& line, const StartedCall& call,
                                absl::StatusOr<Message> result);

  const Options options_;
  mutable Mutex mutex_;
  // The current connection, shared with its calls.
  std::shared_ptr<Line> line_ ABSL_GUARDED_BY(mutex_);
};

// A transport whose channels are RenewedChannels. Servers and channels may outlive the transport.
// Thread-safe.
class RenewingTransport final : public Transport {
 public:
  explicit RenewingTransport(std::unique_ptr<Transport> inner) : inner_(std::move(inner)) {}

  absl::StatusOr<std::unique_ptr<Server>> Listen(const std::string& address,
                                                 std::vector<Service> services) override {
    return inner_->Listen(address, std::move(services));
  }
  std::shared_ptr<Channel> Connect(const std::string& address, Lane lane) override;
  AllocateBuffer MemoryToSend() const override { return inner_->MemoryToSend(); }

 private:
  // The transport that makes the connections. Shared with the channels, which open connections
  // through it.
  const std::shared_ptr<Transport> inner_;
};

}  // namespace cohort
