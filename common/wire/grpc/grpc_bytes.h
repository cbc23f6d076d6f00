#pragma once

// Conversions between this project's messages and gRPC's. Internal to common/wire: only its .cc
// files include this header.

#include <grpcpp/support/byte_buffer.h>
#include <grpcpp/support/status.h>

#include "absl/status/status.h"
#include "common/wire/message.h"

namespace cohort {

// The trailing metadata key that marks a failure as a handler's answer. By this key the caller
// distinguishes the failure from a failure of the transport with the same code.
inline constexpr char kHandlerFailureKey[] = "cohort-handler-failure";

// The metadata key by which a client asks a server for its name on this host, and by which the
// server answers.
inline constexpr char kLocalNameKey[] = "cohort-local-name";
// The metadata key for the name of a server whose port also takes frames. Servers send it to
// callers that ask for the local name.
inline constexpr char kStreamNameKey[] = "cohort-stream-name";

// Makes a gRPC buffer of a frame without copying large slices. The slices' owners are released when
// gRPC has sent the bytes.
grpc::ByteBuffer ToByteBuffer(const Payload& frame);

// Returns the bytes of a gRPC buffer as a payload that refers to the memory in which they arrived.
Payload FromByteBuffer(const grpc::ByteBuffer& buffer);

// Converts a status to gRPC's, with code, message and ErrorDetail in a form that fits into gRPC's
// metadata.
grpc::Status ToGrpcStatus(const absl::Status& status);
absl::Status FromGrpcStatus(const grpc::Status& status);

}  // namespace cohort
