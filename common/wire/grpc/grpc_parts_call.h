#pragma once

// The calling end of calls in parts. Internal to common/wire: only its .cc files include it.

#include <grpcpp/client_context.h>
#include <grpcpp/generic/generic_stub.h>

#include <functional>
#include <memory>
#include <string>

#include "common/wire/grpc/grpc_parts.h"
#include "common/wire/transport.h"

namespace cohort {

// Starts it on `stub`. `done` gets gRPC's status and, when that is OK, the answer.
struct PartsRequest {
  std::string method;
  Message message;    // its size was checked
  bool asks = false;  // its payload waits until the server has room
  size_t message_bytes_max = 0;
  std::shared_ptr<ReceivePool> pool;  // shared with what was received
  // Shared with the caller, which may cancel; deadline and metadata are set.
  std::shared_ptr<grpc::ClientContext> context;
  std::function<void(const grpc::Status&, absl::StatusOr<Message>)> done;
};
void StartPartsCall(grpc::GenericStub& stub, PartsRequest request);

}  // namespace cohort
