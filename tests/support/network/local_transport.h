#pragma once

// Calls between processes of one host, without gRPC: frames over a unix socket, payloads in memory
// that both ends map (local_connection.h). An address is "name:number" and stands for a socket in
// the kernel's own name space, which belongs to the network namespace; number 0 takes a free one.
// Only processes of the same user are let in. Handlers and completions run on one thread of the
// transport.

#include <memory>
#include <string>
#include <vector>

#include "common/wire/frame_limits.h"
#include "common/wire/transport.h"

namespace cohort {

struct LocalLoops;

// Servers and channels may outlive the transport. Thread-safe.
class LocalTransport final : public Transport {
 public:
  struct Options {
    size_t message_bytes_max = kMessageBytesMax;  // header and payload of one message
    bool blocks = true;                           // payloads in shared memory; else on the socket
  };

  LocalTransport();
  explicit LocalTransport(Options options);
  ~LocalTransport() override;

  // Errors: ALREADY_EXISTS or UNAVAILABLE naming the address.
  absl::StatusOr<std::unique_ptr<Server>> Listen(const std::string& address,
                                                 std::vector<Service> services) override;
  std::shared_ptr<Channel> Connect(const std::string& address, Lane lane) override;
  AllocateBuffer MemoryToSend() const override;

 private:
  const Options options_;
  const std::unique_ptr<const LocalLoops> loops_;  // shared with what outlives this object
};

}  // namespace cohort
