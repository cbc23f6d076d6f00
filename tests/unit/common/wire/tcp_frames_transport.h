#pragma once

// Frames over plain TCP and nothing else, so that the conformance suite runs on them from the first
// call on: AutoTransport begins on gRPC.

#include <memory>
#include <string>
#include <vector>

#include "common/wire/frame_limits.h"
#include "common/wire/frames/io_loop.h"
#include "common/wire/transport.h"

namespace cohort {

// Channels connect inside Start. Thread-safe.
class TcpFramesTransport final : public Transport {
 public:
  explicit TcpFramesTransport(size_t message_bytes_max) : message_bytes_max_(message_bytes_max) {}

  absl::StatusOr<std::unique_ptr<Server>> Listen(const std::string& address,
                                                 std::vector<Service> services) override;
  std::shared_ptr<Channel> Connect(const std::string& address, Lane lane) override;

 private:
  const size_t message_bytes_max_;
  const LocalLoops loops_;
  const std::shared_ptr<IoLoop> dials_ = std::make_shared<IoLoop>(Turns::kShort);  // shared
};

}  // namespace cohort
