#include "tests/unit/worker/collective/over_tcp.h"

#include "common/wire/frame_limits.h"
#include "tests/unit/common/wire/tcp_frames_transport.h"

namespace cohort {

std::unique_ptr<Transport> OverTcp(Clock&, Executor&) {
  return std::make_unique<TcpFramesTransport>(kMessageBytesMax);
}

}  // namespace cohort
