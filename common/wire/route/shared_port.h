#pragma once

// A TCP port with two protocols. A client says with its first bytes what it speaks: frames
// (stream_greeting.h), or anything else, which is handed to gRPC with the bytes that were read. So
// proxies, firewalls and service names that lead to a gRPC server lead to its frames as well.
// Internal to common/wire.

#include <chrono>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "common/base/mutex.h"
#include "common/wire/frames/acceptor.h"
#include "common/wire/frames/io_loop.h"
#include "common/wire/frames/loop_timer.h"
#include "common/wire/frames/stream_greeting.h"
#include "common/wire/frames/tcp_socket.h"

namespace cohort {

// Thread-safe.
class SharedPort : public std::enable_shared_from_this<SharedPort> {
 public:
  struct Options {
    std::string name;  // the name by which a greeting means this server
    // Take connections. Run on the loop's thread, never after Close.
    std::function<void(UniqueFd socket, StreamKind kind)> take_frames;
    std::function<void(UniqueFd socket, const std::string& first_bytes)> take_others;
    // The time after which a silent client, which may wait for the server to begin, is handed to
    // gRPC.
    std::chrono::milliseconds silence_max{3000};
  };

  static std::shared_ptr<SharedPort> Start(std::shared_ptr<IoLoop> loop, TcpListeners listeners,
                                           Options options);

  // Closes the port, which is free on return, and connections that have not said what they speak.
  // Must not be called on the loop's thread.
  void Close();

 private:
  class Newcomer;
  using Time = std::chrono::steady_clock::time_point;

  SharedPort(std::shared_ptr<IoLoop> loop, Options options)
      : loop_(std::move(loop)), options_(std::move(options)) {}

  void TakeIn(UniqueFd socket);
  void Look(const std::shared_ptr<Newcomer>& newcomer);
  void GiveSilentOnes();
  void Give(const std::shared_ptr<Newcomer>& newcomer, const Greeted& greeted);
  bool BeginGiving(const std::shared_ptr<Newcomer>& newcomer);
  void EndGiving();

  const std::shared_ptr<IoLoop> loop_;  // shared with connections
  const Options options_;
  std::shared_ptr<LoopTimer> timer_;                  // set once; shared with the loop
  std::vector<std::shared_ptr<Acceptor>> acceptors_;  // the same

  Mutex mutex_;
  CondVar given_;
  bool closed_ ABSL_GUARDED_BY(mutex_) = false;
  bool giving_ ABSL_GUARDED_BY(mutex_) = false;
  // Shared with the loop. The order has no meaning.
  std::set<std::shared_ptr<Newcomer>> newcomers_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace cohort
