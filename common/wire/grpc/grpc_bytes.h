#pragma once

// Conversions between this project's messages and those of gRPC. Internal to common/wire: only its
// .cc files include this header.

#include <grpcpp/support/byte_buffer.h>
#include <grpcpp/support/status.h>

#include "absl/status/status.h"
#include "common/wire/message.h"

namespace cohort {

// The key in a call's trailing metadata that marks a failure as a handler's answer. By this key the
// caller tells the failure from a failure of the transport with the same code.
inline constexpr char kHandlerFailureKey[] = "cohort-handler-failure";

// The metadata key by which a client asks a server for its names. In the answer, the key has the
// name of the server's unix socket.
inline constexpr char kLocalNameKey[] = "cohort-local-name";
// The metadata key under which a server tells its name for greetings, if its port also takes
// frames. Servers send it to clients that send kLocalNameKey.
inline constexpr char kStreamNameKey[] = "cohort-stream-name";

// Returns a frame as a gRPC buffer, without copying large slices. gRPC releases the slices' owners
// when it has sent the bytes.
grpc::ByteBuffer ToByteBuffer(const Payload& frame);

// Returns the bytes of a gRPC buffer as a payload that refers to the memory in which the bytes
// arrived.
Payload FromByteBuffer(const grpc::ByteBuffer& buffer);

// ToGrpcStatus returns a status in gRPC's form, with code, message and ErrorDetail. A message that
// would not fit into gRPC's metadata is cut off. FromGrpcStatus is the inverse function.
grpc::Status ToGrpcStatus(const absl::Status& status);
absl::Status FromGrpcStatus(const grpc::Status& status);

}  // namespace cohort
