#include "common/wire/route/real_world.h"

#include <utility>

#include "common/wire/grpc/grpc_transport.h"
#include "common/wire/route/auto_transport.h"
#include "common/wire/route/renewed_channel.h"

namespace cohort {

std::unique_ptr<JoinedTransport> MakeTransport(TransportKind kind) {
  std::unique_ptr<Transport> inner;
  if (kind == TransportKind::kGrpc) {
    inner = std::make_unique<GrpcTransport>();
  } else {
    AutoTransport::Options options;
    options.kind = kind;
    inner = std::make_unique<AutoTransport>(options);
  }
  // JoinedTransport is the outer one, so that it also waits for calls on connections that
  // RenewingTransport has replaced.
  return std::make_unique<JoinedTransport>(std::make_unique<RenewingTransport>(std::move(inner)));
}

}  // namespace cohort
