#pragma once

// The state that the calls of one gRPC server share. Internal to common/wire/grpc.

#include <cstddef>
#include <memory>
#include <string>

#include "common/wire/grpc/grpc_standard_calls.h"
#include "common/wire/receive_pool.h"
#include "common/wire/server_calls.h"

namespace cohort {

class GrpcServedStreams;

// The state that all methods of a gRPC server share. Thread-safe.
struct GrpcDispatcher {
  std::shared_ptr<ServerCalls> calls;  // shared with what serves its connections
  size_t message_bytes_max = 0;
  std::shared_ptr<ReceivePool> pool;  // shared with what was received
  // Names by which clients of the same host, and all clients, reach the server too; empty: none.
  std::string local_name;
  std::string stream_name;
  std::shared_ptr<GrpcServedStreams> streams;      // shared with the server, which ends them
  std::shared_ptr<GrpcStandardServices> standard;  // the same

  // Tells a client that asks for them the names.
  void TellNames(grpc::GenericServerContext& context) const;
};

}  // namespace cohort
