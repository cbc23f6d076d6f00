#include "common/wire/grpc/grpc_transport.h"

#include <utility>

#include "common/wire/grpc/grpc_channel.h"
#include "common/wire/grpc/grpc_server.h"
#include "common/wire/grpc/grpc_settings.h"

namespace cohort {

GrpcTransport::GrpcTransport() : GrpcTransport(Options()) {}
GrpcTransport::GrpcTransport(Options options) : options_(options) { SetUpGrpc(); }

absl::StatusOr<std::unique_ptr<Server>> GrpcTransport::Listen(const std::string& address,
                                                              std::vector<Service> services) {
  return StartGrpcServer({address, std::move(services), options_.message_bytes_max, ""});
}

std::shared_ptr<Channel> GrpcTransport::Connect(const std::string& address, Lane lane) {
  return MakeGrpcChannel({address, lane, options_.message_bytes_max, pool_});
}

}  // namespace cohort
