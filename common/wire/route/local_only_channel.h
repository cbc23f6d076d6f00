#pragma once

// The channel for tensors in a process that was started with `--transport unix` or `shm`. gRPC
// carries none of its calls; gRPC is only used to ask for the name of the server's unix socket. A
// peer that cannot be reached in the chosen way is refused, with a text that says why and what to
// do. Internal to common/wire.

#include <memory>
#include <string>

#include "common/base/mutex.h"
#include "common/cluster/transport_kind.h"
#include "common/wire/frames/io_loop.h"
#include "common/wire/frames/local_channel.h"
#include "common/wire/transport.h"

namespace cohort {

// The two ways in which the name of a server's unix socket begins: with kSharedNamePrefix if the
// server maps shared blocks, else with kSocketNamePrefix.
inline constexpr char kSharedNamePrefix[] = "cohort-shm:";
inline constexpr char kSocketNamePrefix[] = "cohort-unix:";

// A channel over a unix socket only. The channel asks for the socket's name with the first call,
// and again after the connection has ended. Errors of calls: those of Channel::Start;
// FAILED_PRECONDITION for a peer that is on another host or was started with another transport.
// Thread-safe.
class LocalOnlyChannel final : public Channel,
                               public std::enable_shared_from_this<LocalOnlyChannel> {
 public:
  struct Options {
    TransportKind kind = TransportKind::kShm;  // kShm or kUnix
    std::string address;
    size_t message_bytes_max = 0;
  };
  // Makes a channel to a server. `asked` is a channel over gRPC to the same server.
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
  // The gRPC channel. Shared with calls, which may outlive this channel.
  const std::shared_ptr<Channel> asked_;

  mutable Mutex mutex_;
  // The channel over the local socket. Shared with a call that is being started.
  std::shared_ptr<LocalChannel> local_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace cohort
