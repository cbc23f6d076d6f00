#pragma once

// The data lane of a program that was started with `--transport unix` or `shm`. gRPC carries none
// of the lane's calls; gRPC is only used to ask for the name of the server's local socket. A peer
// that cannot be reached in the chosen way is refused, with a text that says why and what to do.
// Internal to common/wire.

#include <memory>
#include <string>

#include "common/base/mutex.h"
#include "common/cluster/transport_kind.h"
#include "common/wire/frames/io_loop.h"
#include "common/wire/frames/local_channel.h"
#include "common/wire/transport.h"

namespace cohort {

// The start of a local socket's name, which tells whether the socket's server maps blocks.
inline constexpr char kSharedNamePrefix[] = "cohort-shm:";
inline constexpr char kSocketNamePrefix[] = "cohort-unix:";

// A channel over a local socket only. Asks for the socket's name with the first call, and again
// after the connection has ended. Errors of calls beside those of Channel::Start:
// FAILED_PRECONDITION for a peer that is on another host or was started with another transport.
// Thread-safe.
class LocalOnlyChannel final : public Channel,
                               public std::enable_shared_from_this<LocalOnlyChannel> {
 public:
  struct Options {
    TransportKind kind = TransportKind::kShm;  // the kind of transport: kShm or kUnix
    std::string address;
    size_t message_bytes_max = 0;
  };
  // Makes a channel; `asked` is a channel to the same address over gRPC.
  LocalOnlyChannel(LocalLoops loops, Options options, std::shared_ptr<Channel> asked)
      : loops_(std::move(loops)), options_(std::move(options)), asked_(std::move(asked)) {}

  std::unique_ptr<Call> Start(absl::string_view method, Message request, absl::Duration timeout,
                              Reply done) override;
  absl::Duration SinceProgress() const override;

 private:
  class AskingCall;

  std::shared_ptr<LocalChannel> OpenLocal();
  absl::StatusOr<std::shared_ptr<LocalChannel>> ConnectTo(const std::string& name);
  absl::Status Refused(absl::string_view why) const;

  const LocalLoops loops_;  // threads and memory, shared with servers, channels and connections
  const Options options_;
  // The gRPC channel, shared with calls that outlive this channel.
  const std::shared_ptr<Channel> asked_;

  mutable Mutex mutex_;
  // The channel over the local socket. Shared with a call that is being started.
  std::shared_ptr<LocalChannel> local_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace cohort
