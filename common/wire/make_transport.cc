#include "common/wire/make_transport.h"

#include <utility>

#include "common/wire/auto_transport.h"
#include "common/wire/grpc_transport.h"
#include "common/wire/joined_transport.h"
#include "common/wire/renewed_channel.h"

namespace cohort {

std::unique_ptr<Transport> MakeTransport(TransportKind kind) {
  std::unique_ptr<Transport> inner;
  if (kind == TransportKind::kGrpc) {
    inner = std::make_unique<GrpcTransport>();
  } else {
    AutoTransport::Options options;
    options.kind = kind;
    inner = std::make_unique<AutoTransport>(options);
  }
  return std::make_unique<JoinedTransport>(
      std::make_unique<RenewingTransport>(std::move(inner)));
}

}  // namespace cohort
