#pragma once

// The serving end of calls in parts. Internal to common/wire: only its .cc files include it.

#include <grpcpp/impl/rpc_service_method.h>
#include <grpcpp/server_context.h>

#include <memory>
#include <string>

#include "common/wire/receive_pool.h"
#include "common/wire/server_calls.h"

namespace cohort {

// What all methods of a gRPC server share. Thread-safe.
struct GrpcDispatcher {
  std::shared_ptr<ServerCalls> calls;  // shared: replies that come late hold it
  size_t message_bytes_max = 0;
  std::shared_ptr<ReceivePool> pool;  // shared with what was received
  std::string local_name;  // by which clients of the same host reach the server too; empty: none

  // For a client that asks for it.
  void TellLocalName(grpc::CallbackServerContext& context) const;
};

grpc::internal::MethodHandler* MakePartsHandler(std::shared_ptr<const GrpcDispatcher> dispatcher);

}  // namespace cohort
