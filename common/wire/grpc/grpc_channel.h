#pragma once

// Internal to common/wire.

#include <memory>
#include <string>

#include "absl/functional/any_invocable.h"
#include "common/wire/receive_pool.h"
#include "common/wire/transport.h"

namespace cohort {

struct GrpcChannelOptions {
  std::string address;
  Lane lane = Lane::kControl;
  size_t message_bytes_max = 0;
  // The pool for large answers. Shared with other channels; null: one of its own.
  std::shared_ptr<ReceivePool> pool = nullptr;
};

// The names of the other ways to a server. Empty: there is no such way.
struct ServerNames {
  std::string local;   // its unix socket on this host
  std::string stream;  // the name by which greetings on its port mean it (stream_greeting.h)
  std::string peer;    // the connection's peer, as gRPC writes it
};

// Thread-safe.
class GrpcChannel : public Channel {
 public:
  // Starts a call like Channel::Start and also asks the server for its names; `told` runs with them
  // before `done`, unless nobody answered.
  using NamesTold = absl::AnyInvocable<void(ServerNames)>;
  virtual std::unique_ptr<Call> StartAsking(absl::string_view method, Message request,
                                            absl::Duration timeout, NamesTold told, Reply done) = 0;
};

std::shared_ptr<GrpcChannel> MakeGrpcChannel(GrpcChannelOptions options);

}  // namespace cohort
