#pragma once

// Frames (proto/local.proto) over gRPC. A bidirectional stream (proto/wire.proto,
// WireService.Frames) is a connection like a socket, without shared blocks and with checksums. A
// message of the stream has the bytes of the frames that were queued while the message before was
// being sent. gRPC reads payloads in the memory in which they lie; payloads that arrive whole stay
// in gRPC's memory. Internal to common/wire: only its .cc files include this header.

#include <grpcpp/generic/generic_stub.h>

#include <functional>
#include <memory>

#include "common/wire/frames/frame_connection.h"
#include "common/wire/grpc/grpc_served_call.h"
#include "common/wire/grpc/server_names.h"

namespace cohort {

inline constexpr char kFramesMethod[] = "/cohort.proto.WireService/Frames";

// Opens a connection on `stub`. `on_names` gets the server's names when the first bytes of the
// server arrive. Frames that are sent before gRPC has connected wait until it has.
std::shared_ptr<FrameConnection> OpenFrames(grpc::GenericStub& stub,
                                            std::shared_ptr<FrameConnection::Owner> owner,
                                            const FrameConnection::Options& options,
                                            std::function<void(ServerNames)> on_names);

// Serves a connection of frames that a client has opened with `call`.
void ServeFrames(std::unique_ptr<GrpcIncoming> call,
                 const std::shared_ptr<const GrpcDispatcher>& dispatcher);

}  // namespace cohort
