#pragma once

// The connections over plain TCP that carry one channel's frames, to the same port as gRPC's
// connection. The connections are made when the server has told its name over gRPC, and made again
// after they have ended. If connecting fails, calls stay on gRPC, and the log says why. Internal to
// common/wire.

#include <chrono>
#include <memory>
#include <string>

#include "common/base/mutex.h"
#include "common/wire/frames/io_loop.h"
#include "common/wire/frames/local_channel.h"
#include "common/wire/frames/stream_dial.h"

namespace cohort {

// The connections over plain TCP to one server. Thread-safe.
class TcpRoute : public std::enable_shared_from_this<TcpRoute> {
 public:
  struct Options {
    std::string address;  // address of the server, for texts
    size_t message_bytes_max = 0;
    // The largest request that is sent without asking the server for room (LocalSession::Options).
    size_t free_bytes_max = kSmallRequestBytesMax;
  };
  TcpRoute(LocalLoops loops, Options options)
      : loops_(std::move(loops)), options_(std::move(options)) {}
  ~TcpRoute();

  // Returns the channel for calls over TCP, or null while the connections do not exist.
  std::shared_ptr<LocalChannel> open();

  // A server that has answered over gRPC, and to which a TcpRoute may connect. An empty name means
  // that the server does not take frames.
  struct Server {
    std::string peer;  // address of the server, in gRPC's notation
    std::string name;
  };
  void Offer(const Server& server);

 private:
  using Clock = std::chrono::steady_clock;

  void Dial(const Server& server, StreamKind kind);
  void OnDialled(const Server& server, StreamKind kind, absl::StatusOr<UniqueFd> socket);
  std::shared_ptr<LocalSession> SessionOver(UniqueFd socket, StreamKind kind);
  void Refuse(const Server& server, const absl::Status& why);

  const LocalLoops loops_;  // threads and memory, shared with servers, channels and connections
  const Options options_;

  Mutex mutex_;
  // The channel over TCP; null without connections. Shared with a call that is being started.
  std::shared_ptr<LocalChannel> channel_ ABSL_GUARDED_BY(mutex_);
  bool dialling_ ABSL_GUARDED_BY(mutex_) = false;
  // The number of attempts to connect (dials) that were started.
  int dials_ ABSL_GUARDED_BY(mutex_) = 0;
  // The last attempt to connect (dial) that was started. Shared with the loop.
  std::shared_ptr<StreamDial> dial_ ABSL_GUARDED_BY(mutex_);
  // The LocalSession for small calls, until the connection for large payloads exists too.
  std::shared_ptr<LocalSession> calls_ ABSL_GUARDED_BY(mutex_);
  // The name of the last server that could not be reached over TCP, and the time of the next
  // attempt to reach this server.
  std::string refused_ ABSL_GUARDED_BY(mutex_);
  Clock::time_point again_ ABSL_GUARDED_BY(mutex_);
  std::chrono::seconds pause_ ABSL_GUARDED_BY(mutex_){0};
  std::string logged_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace cohort
