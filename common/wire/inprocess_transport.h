#pragma once

// Calls between tasks in one process: no sockets, no encoding, but real threads and real deadlines.
// An address is any string; "host:0" gets a port number that is not in use. The request that a
// handler receives shares its payload memory with the sender.

#include <memory>
#include <string>
#include <vector>

#include "common/base/clock.h"
#include "common/base/executor.h"
#include "common/wire/frame_limits.h"
#include "common/wire/transport.h"

namespace cohort {

// A transport within one process. Handlers and completions run on the executor. Servers and
// channels may outlive the transport, but not the clock or the executor. Thread-safe.
class InProcessTransport final : public Transport {
 public:
  struct Options {
    size_t message_bytes_max = kMessageBytesMax;  // limit of header and payload of one message
  };

  InProcessTransport(Clock& clock, Executor& executor);
  InProcessTransport(Clock& clock, Executor& executor, Options options);
  ~InProcessTransport() override;

  // Serves `services` at `address`. Errors: ALREADY_EXISTS naming the address; INVALID_ARGUMENT for
  // an empty address.
  absl::StatusOr<std::unique_ptr<Server>> Listen(const std::string& address,
                                                 std::vector<Service> services) override;
  std::shared_ptr<Channel> Connect(const std::string& address, Lane lane) override;

 private:
  class Network;
  class InProcessServer;
  class InProcessChannel;
  const std::shared_ptr<Network> network_;  // the listeners, shared with servers and channels
};

}  // namespace cohort
