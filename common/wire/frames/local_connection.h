#pragma once

// A connection of frames over a socket: a unix socket between two processes of one host, or TCP,
// which has no shared blocks. Internal to common/wire.

#include <atomic>
#include <cstdint>
#include <memory>

#include "common/base/unique_fd.h"
#include "common/wire/frames/frame_connection.h"
#include "common/wire/frames/io_loop.h"

namespace cohort {

// A connection that reads on its loop's thread. Thread-safe.
class LocalConnection final : public FrameConnection, public IoLoop::Source, private FrameBearer {
 public:
  // Makes a connection over `socket` and starts to read frames. Holds `owner` until the connection
  // ends.
  static std::shared_ptr<LocalConnection> Start(std::shared_ptr<IoLoop> loop, UniqueFd socket,
                                                std::shared_ptr<Owner> owner,
                                                const Options& options);

  int fd() const override { return socket_.get(); }
  void OnEvents(uint32_t events) override;
  void CountLeft() override;

 private:
  LocalConnection(std::shared_ptr<IoLoop> loop, UniqueFd socket, std::shared_ptr<Owner> owner,
                  const Options& options);

  absl::StatusOr<bool> SendFrames(std::deque<UnsentFrame>& frames,
                                  std::vector<Payload>& sent) override;
  void WaitForRoom(bool waits) override;
  void StopBearer(const absl::Status& why) override;

  // The loop that reads from the socket. Shared with other connections and the transport; the last
  // owner stops the loop's thread.
  const std::shared_ptr<IoLoop> loop_;
  const UniqueFd socket_;
  std::atomic<int64_t> written_{0};  // bytes that the system has taken
  std::atomic<int64_t> left_{0};     // bytes of them that the last CountLeft found confirmed
};

}  // namespace cohort
