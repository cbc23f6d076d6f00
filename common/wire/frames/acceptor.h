#pragma once

// Accepts connections from one listening socket, on an IoLoop's thread. Internal to common/wire.

#include <chrono>
#include <functional>
#include <memory>

#include "absl/types/optional.h"
#include "common/base/mutex.h"
#include "common/base/unique_fd.h"
#include "common/wire/frames/io_loop.h"

namespace cohort {

// Accepts the connections of one listening socket. Thread-safe.
class Acceptor final : public IoLoop::Source {
 public:
  struct Options {
    // Accepts the next connection that waits at `listener`, without blocking. Returns an invalid
    // descriptor and sets errno if no connection waits, as accept4 does.
    std::function<UniqueFd(const UniqueFd& listener)> accept;
    // Takes ownership of an accepted connection. Runs on the loop's thread, never after Close.
    std::function<void(UniqueFd connection)> take;
    // How long the acceptor pauses when the process is short of descriptors or memory. Accepting
    // again at once would fail again. Meanwhile, connections wait at the listening socket.
    std::chrono::milliseconds rest{100};
  };

  static std::shared_ptr<Acceptor> Start(std::shared_ptr<IoLoop> loop, UniqueFd socket,
                                         Options options);

  // Stops accepting connections and closes the listening socket, whose address is then free. Must
  // not be called from `take`.
  void Close();

  int fd() const override { return fd_; }
  void OnEvents(uint32_t events) override;

 private:
  Acceptor(std::shared_ptr<IoLoop> loop, UniqueFd socket, Options options);
  void Rest(int error) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void GoOn();

  const std::shared_ptr<IoLoop> loop_;  // the loop, shared with the accepted connections
  const Options options_;
  const int fd_;
  // The timer that ends a pause in accepting. Set once; shared with the loop.
  std::shared_ptr<LoopTimer> rested_;
  Mutex mutex_;
  UniqueFd socket_ ABSL_GUARDED_BY(mutex_);
  // The last time at which a pause in accepting was logged.
  absl::optional<IoLoop::Time> logged_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace cohort
