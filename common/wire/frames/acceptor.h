#pragma once

// Takes connections in from one listening socket, on an IoLoop's thread. Internal to common/wire.

#include <chrono>
#include <functional>
#include <memory>

#include "absl/types/optional.h"
#include "common/base/mutex.h"
#include "common/base/unique_fd.h"
#include "common/wire/frames/io_loop.h"
#include "common/wire/frames/loop_timer.h"

namespace cohort {

// Thread-safe.
class Acceptor final : public IoLoop::Source {
 public:
  struct Options {
    // Returns the next connection that waits, without blocking, or none with errno, as accept4
    // does.
    std::function<UniqueFd(const UniqueFd& listener)> accept;
    // Takes a connection. Runs on the loop's thread, never after Close.
    std::function<void(UniqueFd connection)> take;
    // A process that has no descriptor left leaves connections where they wait, and tries again
    // after so long: asked at once, the system would answer the same.
    std::chrono::milliseconds rest{100};
  };

  static std::shared_ptr<Acceptor> Start(std::shared_ptr<IoLoop> loop, UniqueFd socket,
                                         Options options);

  // Stops accepting; the address is free on return. Must not be called from `take`.
  void Close();

  int fd() const override { return fd_; }
  void OnEvents(uint32_t events) override;

 private:
  Acceptor(std::shared_ptr<IoLoop> loop, UniqueFd socket, Options options);
  void Rest(int error) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void GoOn();

  const std::shared_ptr<IoLoop> loop_;  // shared with connections
  const Options options_;
  const int fd_;
  std::shared_ptr<LoopTimer> rested_;  // set once; shared with the loop
  Mutex mutex_;
  UniqueFd socket_ ABSL_GUARDED_BY(mutex_);
  absl::optional<IoLoop::Time> logged_ ABSL_GUARDED_BY(mutex_);  // when a rest was last logged
};

}  // namespace cohort
