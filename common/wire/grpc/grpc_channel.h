#pragma once

// A channel over gRPC that can also ask a server for the names by which it is reached in other
// ways. Internal to common/wire.

#include <memory>
#include <string>

#include "absl/functional/any_invocable.h"
#include "common/wire/grpc/server_names.h"
#include "common/wire/receive_memory.h"
#include "common/wire/transport.h"

namespace cohort {

struct GrpcChannelOptions {
  std::string address;
  Lane lane = Lane::kControl;
  size_t message_bytes_max = 0;
  // The pool for the memory of large answers, shared with other channels. Null: the channel makes
  // its own pool.
  std::shared_ptr<ReceivePool> pool = nullptr;
};

// A channel over gRPC. Thread-safe.
class GrpcChannel : public Channel {
 public:
  // Starts a call like Channel::Start, and asks the server for its names. `on_names` runs with the
  // names before `done` runs. `on_names` does not run if no server has answered.
  using OnNames = absl::AnyInvocable<void(ServerNames)>;
  virtual std::unique_ptr<Call> StartAsking(absl::string_view method, Message request,
                                            absl::Duration timeout, OnNames on_names,
                                            Reply done) = 0;
};

std::shared_ptr<GrpcChannel> MakeGrpcChannel(GrpcChannelOptions options);

}  // namespace cohort
