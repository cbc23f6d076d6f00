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

// The state that all methods of a gRPC server use. Thread-safe.
struct GrpcDispatcher {
  std::shared_ptr<ServerCalls> calls;  // the server's open calls, shared with the server
  size_t message_bytes_max = 0;
  std::shared_ptr<ReceivePool> pool;  // memory of received payloads, shared with the payloads
  // The names by which clients of the same host, and clients of any host, reach the server without
  // gRPC. Empty: there is no such way.
  std::string local_name;
  std::string stream_name;
  // The open streams, shared with the server, which ends them.
  std::shared_ptr<GrpcServedStreams> streams;
  std::shared_ptr<GrpcStandardServices> standard;  // health and reflection, shared with the server

  // Adds the server's names to the answer's metadata if the client asks for them.
  void TellNames(grpc::GenericServerContext& context) const;
};

}  // namespace cohort
