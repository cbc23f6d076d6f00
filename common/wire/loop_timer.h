#pragma once

// A timer of an IoLoop. Internal to common/wire.

#include <chrono>
#include <functional>
#include <memory>

#include "common/base/mutex.h"
#include "common/wire/io_loop.h"

namespace cohort {

// Thread-safe.
class LoopTimer final : public IoLoop::Source {
 public:
  // `fire` runs on the loop's thread.
  static std::shared_ptr<LoopTimer> Make(IoLoop& loop, std::function<void()> fire);

  // Fires at `time` or, when it was told an earlier one since it last fired, at that.
  void FireBy(std::chrono::steady_clock::time_point time);

  int fd() const override { return timer_.get(); }
  void OnEvents(uint32_t events) override;

 private:
  explicit LoopTimer(std::function<void()> fire);

  const UniqueFd timer_;
  const std::function<void()> fire_;
  Mutex mutex_;
  std::chrono::steady_clock::time_point next_ ABSL_GUARDED_BY(mutex_) =
      std::chrono::steady_clock::time_point::max();
};

}  // namespace cohort
