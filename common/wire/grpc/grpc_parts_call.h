#pragma once

// The calling end of calls in parts. Internal to common/wire: only its .cc files include this
// header.

#include <grpcpp/client_context.h>
#include <grpcpp/generic/generic_stub.h>

#include <functional>
#include <memory>
#include <string>

#include "common/wire/grpc/grpc_parts.h"
#include "common/wire/transport.h"

namespace cohort {

// The arguments of StartPartsCall, which starts a call in parts on `stub`. `done` gets gRPC's
// status and, if the status is OK, the answer.
struct PartsRequest {
  std::string method;
  Message message;    // the request, whose size was checked
  bool asks = false;  // whether the payload waits until the server has room
  size_t message_bytes_max = 0;
  std::shared_ptr<ReceivePool> pool;  // memory of received payloads, shared with the payloads
  // The context of the call, with deadline and metadata. Shared with the caller, which may cancel
  // the call.
  std::shared_ptr<grpc::ClientContext> context;
  std::function<void(const grpc::Status&, absl::StatusOr<Message>)> done;
};
void StartPartsCall(grpc::GenericStub& stub, PartsRequest request);

}  // namespace cohort
