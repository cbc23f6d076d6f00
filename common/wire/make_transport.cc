#include "common/wire/make_transport.h"

#include "common/wire/auto_transport.h"
#include "common/wire/grpc_transport.h"

namespace cohort {

std::unique_ptr<Transport> MakeTransport(TransportKind kind) {
  if (kind == TransportKind::kTcp) return std::make_unique<GrpcTransport>();
  return std::make_unique<AutoTransport>();
}

}  // namespace cohort
