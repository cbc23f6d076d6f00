#pragma once

// Internal to common/wire.

#include <memory>
#include <string>

#include "common/wire/transport.h"

namespace cohort {

struct GrpcChannelOptions {
  std::string address;
  Lane lane = Lane::kControl;
  size_t message_bytes_max = 0;
};

std::shared_ptr<Channel> MakeGrpcChannel(GrpcChannelOptions options);

}  // namespace cohort
