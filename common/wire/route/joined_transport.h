#pragma once

// A wrapper that ends the calls of a transport before the transport's user is destroyed.

#include <memory>

#include "common/wire/transport.h"

namespace cohort {

// A transport whose calls end before it is destroyed. EndCalls() or the destructor cancels the open
// calls and waits for their completions, so that objects that completions use may be destroyed
// after the transport. Calls that are started later are cancelled too. Neither may be called inside
// a completion. Servers and channels may outlive the transport. Thread-safe.
class JoinedTransport final : public Transport {
 public:
  explicit JoinedTransport(std::unique_ptr<Transport> inner);
  ~JoinedTransport() override;

  // Cancels all calls, those that will be started included, and waits until none is open.
  void EndCalls();

  absl::StatusOr<std::unique_ptr<Server>> Listen(const std::string& address,
                                                 std::vector<Service> services) override;
  std::shared_ptr<Channel> Connect(const std::string& address, Lane lane) override;
  AllocateBuffer MemoryToSend() const override { return inner_->MemoryToSend(); }

 private:
  class OpenCalls;
  class JoinedChannel;

  const std::unique_ptr<Transport> inner_;
  // The open calls. Shared with channels, which may outlive the transport.
  const std::shared_ptr<OpenCalls> calls_;
};

}  // namespace cohort
