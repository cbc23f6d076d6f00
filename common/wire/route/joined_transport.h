#pragma once

#include <memory>

#include "common/wire/transport.h"

namespace cohort {

// A transport whose calls end with it: its destructor cancels the open ones and waits for their
// completions, so that objects used by these may be destroyed after it. Must not be destroyed in a
// completion; calls started meanwhile are cancelled too. Servers and channels may outlive it.
// Thread-safe.
class JoinedTransport final : public Transport {
 public:
  explicit JoinedTransport(std::unique_ptr<Transport> inner);
  ~JoinedTransport() override;

  absl::StatusOr<std::unique_ptr<Server>> Listen(const std::string& address,
                                                 std::vector<Service> services) override;
  std::shared_ptr<Channel> Connect(const std::string& address, Lane lane) override;
  AllocateBuffer MemoryToSend() const override { return inner_->MemoryToSend(); }

 private:
  class OpenCalls;
  class JoinedChannel;

  const std::unique_ptr<Transport> inner_;
  const std::shared_ptr<OpenCalls> calls_;  // shared with channels that outlive this object
};

}  // namespace cohort
