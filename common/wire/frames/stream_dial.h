#pragma once

// The calling end of a TCP connection on which frames will travel. A dial connects to the server,
// sends a greeting (stream_greeting.h) and waits for the server's welcome, all without blocking.
// Internal to common/wire.

#include <chrono>
#include <memory>
#include <string>

#include "absl/functional/any_invocable.h"
#include "absl/status/statusor.h"
#include "common/base/mutex.h"
#include "common/base/unique_fd.h"
#include "common/wire/frames/io_loop.h"
#include "common/wire/frames/stream_greeting.h"

namespace cohort {

inline constexpr std::chrono::seconds kDialTimeMax{5};

// One attempt to open a connection for frames. Thread-safe.
class StreamDial final : public IoLoop::Source, public std::enable_shared_from_this<StreamDial> {
 public:
  struct Options {
    std::string peer;  // address of the server, in the form that BeginConnectTcp takes
    std::string name;  // the server's name, which the server told over gRPC
    StreamKind kind = StreamKind::kCalls;
  };
  // The callback at the end of a dial. It gets the connected socket, or an error that says why
  // there is no connection: UNAVAILABLE.
  using Done = absl::AnyInvocable<void(absl::StatusOr<UniqueFd>)>;

  // Begins to connect. `done` runs once, on the loop's thread, unless the dial is cancelled.
  // Errors: those of BeginConnectTcp; `done` does not run after such an error.
  static absl::StatusOr<std::shared_ptr<StreamDial>> Start(std::shared_ptr<IoLoop> loop,
                                                           Options options, Done done);

  void Cancel();

  int fd() const override { return fd_; }
  void OnEvents(uint32_t events) override;

 private:
  StreamDial(std::shared_ptr<IoLoop> loop, UniqueFd socket, Options options, Done done);

  absl::Status Greet() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::StatusOr<bool> Welcomed() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void End(absl::Status status);

  const std::shared_ptr<IoLoop> loop_;  // the loop, shared with connections
  const int fd_;
  const Options options_;
  // The timer that ends the dial at its time limit. Set once; shared with the loop.
  std::shared_ptr<LoopTimer> timer_;

  Mutex mutex_;
  Done done_ ABSL_GUARDED_BY(mutex_);  // the callback; null after the end of the dial
  UniqueFd socket_ ABSL_GUARDED_BY(mutex_);
  bool greeted_ ABSL_GUARDED_BY(mutex_) = false;
  std::string answer_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace cohort
