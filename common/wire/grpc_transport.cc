#include "common/wire/grpc_transport.h"

#include <grpc/support/log.h>

#include <utility>

#include "common/base/log.h"
#include "common/wire/grpc_channel.h"
#include "common/wire/grpc_server.h"

namespace cohort {

GrpcTransport::GrpcTransport() : GrpcTransport(Options()) {}
GrpcTransport::GrpcTransport(Options options) : options_(options) {
  // Whatever gRPC has to say also comes as the status of a call or of Listen, so its own lines are
  // for debugging. The setting belongs to the process; making it twice changes nothing.
  gpr_set_log_function([](gpr_log_func_args* line) {
    Log(LogLevel::kDebug, "grpc", {{"text", line->message}});
  });
}

absl::StatusOr<std::unique_ptr<Server>> GrpcTransport::Listen(const std::string& address,
                                                              std::vector<Service> services) {
  return StartGrpcServer({address, std::move(services), options_.message_bytes_max});
}

std::shared_ptr<Channel> GrpcTransport::Connect(const std::string& address, Lane lane) {
  return MakeGrpcChannel({address, lane, options_.message_bytes_max});
}

}  // namespace cohort
