#pragma once

// Internal to common/wire.

#include <memory>
#include <string>

#include "absl/functional/any_invocable.h"
#include "common/wire/transport.h"

namespace cohort {

struct GrpcChannelOptions {
  std::string address;
  Lane lane = Lane::kControl;
  size_t message_bytes_max = 0;
};

// Thread-safe.
class GrpcChannel : public Channel {
 public:
  // As Channel::Start, but the server is also asked for its name on this host; `told` runs with it
  // before `done`, unless it has none.
  using NameTold = absl::AnyInvocable<void(std::string)>;
  virtual std::unique_ptr<Call> StartAsking(absl::string_view method, Message request,
                                            absl::Duration timeout, NameTold told, Reply done) = 0;
};

std::shared_ptr<GrpcChannel> MakeGrpcChannel(GrpcChannelOptions options);

}  // namespace cohort
