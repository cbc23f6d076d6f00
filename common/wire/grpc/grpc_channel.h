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
  // Of the memory of large answers. Shared with other channels; null: one of its own.
  std::shared_ptr<ReceivePool> pool = nullptr;
};

// What a server tells of the other ways to it. Empty: there is none.
struct ServerNames {
  std::string local;   // of its unix socket on this host
  std::string stream;  // by which greetings on its port mean it (stream_greeting.h)
  std::string peer;    // of its connection, as gRPC writes it
};

// Thread-safe.
class GrpcChannel : public Channel {
 public:
  // As Channel::Start, but the server is also asked for its names; `told` runs with them before
  // `done`, unless nobody answered.
  using NamesTold = absl::AnyInvocable<void(ServerNames)>;
  virtual std::unique_ptr<Call> StartAsking(absl::string_view method, Message request,
                                            absl::Duration timeout, NamesTold told, Reply done) = 0;
};

std::shared_ptr<GrpcChannel> MakeGrpcChannel(GrpcChannelOptions options);

}  // namespace cohort
