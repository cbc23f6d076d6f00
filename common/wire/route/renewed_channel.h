#pragma once

// A channel that does not stay with a connection that no longer serves. It opens another one
//
// - after a malformed message: bytes changed on the way, so what follows cannot be trusted;
// - when calls in a row have run out of time, and nothing was answered for kSilenceMax: the way
//   may swallow what is sent, or the receiver have lost where a message begins.
//
// The calls that are under way on the old one end with UNAVAILABLE, as if it had broken; the call
// of the malformed message with that error (malformed.h). A call that finds no connection because
// this process has no file left to open ends with RESOURCE_EXHAUSTED, which says so.

#include <chrono>
#include <functional>
#include <memory>
#include <string>

#include "common/base/mutex.h"
#include "common/wire/open_calls.h"
#include "common/wire/transport.h"

namespace cohort {

// The longest silence of a connection while calls wait for answers: the default lease of tasks.
inline constexpr std::chrono::seconds kSilenceMax{5};
// The number of time-outs in a row that end a connection: one call alone may have been given too
// little time.
inline constexpr int kTimeoutsInARow = 2;

// Thread-safe.
class RenewedChannel final : public Channel, public std::enable_shared_from_this<RenewedChannel> {
 public:
  using Time = std::chrono::steady_clock::time_point;
  struct Options {
    std::string address;  // the peer's, for texts
    std::function<std::shared_ptr<Channel>()> open;
    std::function<Time()> now = std::chrono::steady_clock::now;
  };
  explicit RenewedChannel(Options options);

  std::unique_ptr<Call> Start(absl::string_view method, Message request, absl::Duration timeout,
                              Reply done) override;

 private:
  struct Line;
  class StartedCall;

  void Renew(const std::shared_ptr<Line>& line, const std::string& why);
  void CountTimeout(const std::shared_ptr<Line>& line);
  absl::StatusOr<Message> Judge(const std::shared_ptr<Line>& line, const StartedCall& call,
                                absl::StatusOr<Message> result);

  const Options options_;
  Mutex mutex_;
  std::shared_ptr<Line> line_ ABSL_GUARDED_BY(mutex_);  // shared with its calls
};

// A transport with such channels. Servers and channels may outlive it. Thread-safe.
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
  const std::shared_ptr<Transport> inner_;  // shared with channels, which open others
};

}  // namespace cohort
