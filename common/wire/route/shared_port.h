#pragma once

// A TCP port that serves two protocols, frames and gRPC. A client shows its protocol with its first
// bytes: a greeting for frames (stream_greeting.h), or anything else. A connection that begins with
// anything else is passed to gRPC, together with the bytes that were read. So proxies, firewalls
// and service names that lead to a gRPC server lead to its frames as well. Internal to common/wire.

#include <chrono>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "common/base/mutex.h"
#include "common/wire/frames/acceptor.h"
#include "common/wire/frames/io_loop.h"
#include "common/wire/frames/stream_greeting.h"
#include "common/wire/frames/tcp_socket.h"

namespace cohort {

// The TCP port of one server. Thread-safe.
class SharedPort : public std::enable_shared_from_this<SharedPort> {
 public:
  struct Options {
    std::string name;  // the server's name, which greetings must have
    // The receivers of connections: take_frames gets clients that send a greeting for frames, and
    // take_others all other clients. Both run on the loop's thread, never after Close.
    std::function<void(UniqueFd socket, StreamKind kind)> take_frames;
    std::function<void(UniqueFd socket, const std::string& first_bytes)> take_others;
    // How long a new client may be silent. A client that is silent for longer may be waiting until
    // the server begins, and is passed to gRPC.
    std::chrono::milliseconds silence_max{3000};
  };

  static std::shared_ptr<SharedPort> Start(std::shared_ptr<IoLoop> loop, TcpListeners listeners,
                                           Options options);

  // Closes the port, and the connections whose protocol is not known yet. When Close returns,
  // another socket can listen on the port. Must not be called on the loop's thread.
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

  const std::shared_ptr<IoLoop> loop_;  // the loop, shared with connections
  const Options options_;
  // The timer for silent clients. Set once; shared with the loop.
  std::shared_ptr<LoopTimer> timer_;
  // The acceptors, one for each listening socket. Set once; shared with the loop.
  std::vector<std::shared_ptr<Acceptor>> acceptors_;

  Mutex mutex_;
  CondVar given_;
  bool closed_ ABSL_GUARDED_BY(mutex_) = false;
  bool giving_ ABSL_GUARDED_BY(mutex_) = false;
  // The connections whose protocol is not known yet. Shared with the loop. The order of the set is
  // never used.
  std::set<std::shared_ptr<Newcomer>> newcomers_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace cohort
