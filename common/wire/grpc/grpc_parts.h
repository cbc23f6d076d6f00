#pragma once

// A message that travels in parts over gRPC: one bidirectional stream for each call
// (proto/wire.proto, WireService.Call), and one message of the stream for each part. The sender
// gives gRPC a part when the previous part has been written to the socket. Together with HTTP/2's
// flow control, this bounds the bytes under way. A large request is announced first, and its bytes
// wait until the server has room. Internal to common/wire: only its .cc files include this header.

#include <grpcpp/client_context.h>
#include <grpcpp/generic/generic_stub.h>

#include <cstddef>
#include <functional>
#include <memory>
#include <string>

#include "common/wire/grpc/grpc_served_call.h"
#include "common/wire/transport.h"

namespace cohort {

inline constexpr char kPartsMethod[] = "/cohort.proto.WireService/Call";

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

// Serves a call whose request and answer travel in parts.
void ServeParts(std::unique_ptr<GrpcIncoming> call,
                const std::shared_ptr<const GrpcDispatcher>& dispatcher);

}  // namespace cohort
