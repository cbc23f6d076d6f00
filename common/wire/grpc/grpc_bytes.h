#pragma once

// Between this project's messages and gRPC's. Internal to common/wire: only its .cc files include
// it.

#include <grpcpp/support/byte_buffer.h>
#include <grpcpp/support/status.h>

#include "absl/status/status.h"
#include "common/wire/message.h"

namespace cohort {

// Trailing metadata of a failure that a handler answered, so that the caller can tell it from a
// failure of the transport with the same code.
inline constexpr char kHandlerFailureKey[] = "cohort-handler-failure";

// Metadata by which a client asks a server for its name on this host, and by which it is told.
inline constexpr char kLocalNameKey[] = "cohort-local-name";
// The metadata key with the name of a server whose port takes frames too, told to callers that ask
// for the local name.
inline constexpr char kStreamNameKey[] = "cohort-stream-name";

// References the slices; the owners are released when gRPC has sent the bytes.
grpc::ByteBuffer ToByteBuffer(const Payload& frame);

// References the memory in which the bytes arrived.
Payload FromByteBuffer(const grpc::ByteBuffer& buffer);

// Puts code, message and ErrorDetail into a form that fits into gRPC's metadata.
grpc::Status ToGrpcStatus(const absl::Status& status);
absl::Status FromGrpcStatus(const grpc::Status& status);

}  // namespace cohort
