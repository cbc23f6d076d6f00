#pragma once

// The connections of one channel that carry frames over plain TCP, beside gRPC's and to the same
// port. They are made when the server has told its name over gRPC, and again after their end; where
// that does not succeed calls stay on gRPC, and the log says why. Internal to common/wire.

#include <chrono>
#include <memory>
#include <string>

#include "common/base/mutex.h"
#include "common/wire/frames/io_loop.h"
#include "common/wire/frames/local_channel.h"
#include "common/wire/frames/stream_dial.h"

namespace cohort {

// Thread-safe.
class TcpRoute : public std::enable_shared_from_this<TcpRoute> {
 public:
  struct Options {
    std::string address;  // the server's, for texts
    size_t message_bytes_max = 0;
    size_t free_bytes_max = kSmallRequestBytesMax;  // see LocalSession
  };
  TcpRoute(LocalLoops loops, Options options)
      : loops_(std::move(loops)), options_(std::move(options)) {}
  ~TcpRoute();

  // Returns the channel for calls, or null while there is no connection.
  std::shared_ptr<LocalChannel> open();

  // A server that answered over gRPC is here, and has that name; empty: it has none.
  struct Server {
    std::string peer;  // in gRPC's form
    std::string name;
  };
  void Offer(const Server& server);

 private:
  using Clock = std::chrono::steady_clock;

  void Dial(const Server& server, StreamKind kind);
  void OnDialled(const Server& server, StreamKind kind, absl::StatusOr<UniqueFd> socket);
  std::shared_ptr<LocalSession> SessionOver(UniqueFd socket, StreamKind kind);
  void Refuse(const Server& server, const absl::Status& why);

  const LocalLoops loops_;  // see LocalSession
  const Options options_;

  Mutex mutex_;
  std::shared_ptr<LocalChannel> channel_ ABSL_GUARDED_BY(mutex_);  // shared with a Start under way
  bool dialling_ ABSL_GUARDED_BY(mutex_) = false;
  int dials_ ABSL_GUARDED_BY(mutex_) = 0;                     // so far
  std::shared_ptr<StreamDial> dial_ ABSL_GUARDED_BY(mutex_);  // the last; shared with the loop
  // held until the other session is there
  std::shared_ptr<LocalSession> calls_ ABSL_GUARDED_BY(mutex_);
  // The name of a server that could not be reached by TCP, and the time of the next try.
  std::string refused_ ABSL_GUARDED_BY(mutex_);
  Clock::time_point again_ ABSL_GUARDED_BY(mutex_);
  std::chrono::seconds pause_ ABSL_GUARDED_BY(mutex_){0};
  std::string logged_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace cohort
