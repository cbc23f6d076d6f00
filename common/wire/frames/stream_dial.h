#pragma once

// The calling end of a TCP connection on which frames will travel. Connects, sends a greeting
// (stream_greeting.h) and waits for the welcome, without blocking. Internal to common/wire.

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
    std::string name;  // name of the server, which it told over gRPC
    StreamKind kind = StreamKind::kCalls;
  };
  // The callback of a dial. Gets the connected socket, or UNAVAILABLE or INVALID_ARGUMENT saying
  // why there is no connection.
  using Done = absl::AnyInvocable<void(absl::StatusOr<UniqueFd>)>;

  // Begins to connect. `done` runs once on the loop's thread, unless the dial is cancelled. Errors:
  // those of BeginConnectTcp; after an error `done` never runs.
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
  // Ends the dial at its time limit; set once, shared with the loop.
  std::shared_ptr<LoopTimer> timer_;

  Mutex mutex_;
  Done done_ ABSL_GUARDED_BY(mutex_);  // the callback; null after the end of the dial
  UniqueFd socket_ ABSL_GUARDED_BY(mutex_);
  bool greeted_ ABSL_GUARDED_BY(mutex_) = false;
  std::string answer_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace cohort
