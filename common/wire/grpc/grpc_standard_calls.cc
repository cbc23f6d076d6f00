#include "common/wire/grpc/grpc_standard_calls.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "common/wire/grpc/grpc_bytes.h"
#include "common/wire/grpc/reflection.h"
#include "common/wire/method_table.h"
#include "proto/health.pb.h"
#include "proto/reflection.pb.h"

namespace cohort {

namespace {

using grpc::health::v1::HealthCheckRequest;
using grpc::health::v1::HealthCheckResponse;
using grpc::reflection::v1alpha::ServerReflectionRequest;

// Parses a message of a standard service: a plain proto, without the frame of this project.
template <typename Proto>
bool Parse(const grpc::ByteBuffer& message, Proto& proto) {
  grpc::Slice bytes;
  return message.DumpToSingleSlice(&bytes).ok() &&
         proto.ParseFromArray(bytes.begin(), static_cast<int>(bytes.size()));
}

template <typename Proto>
grpc::ByteBuffer Serialized(const Proto& proto) {
  const grpc::Slice bytes(proto.SerializeAsString());
  return grpc::ByteBuffer(&bytes, 1);
}

template <typename Proto>
grpc::Status Malformed() {
  return grpc::Status(grpc::StatusCode::INVALID_ARGUMENT,
                      absl::StrCat("malformed ", Proto::descriptor()->full_name()));
}

// Answers one health check. Deletes itself in OnDone.
class HealthCheck final : public GrpcServedCall {
 public:
  HealthCheck(std::unique_ptr<GrpcIncoming> call,
              std::shared_ptr<const GrpcStandardServices> services)
      : GrpcServedCall(std::move(call)), services_(std::move(services)) {}
  void Start() { StartReading(); }

 private:
  bool OnMessage(const grpc::ByteBuffer& message) override {
    HealthCheckRequest request;
    if (!Parse(message, request)) {
      StartFinish(Malformed<HealthCheckRequest>());
      // The server knows only its health as a whole, not that of single services.
    } else if (!request.service().empty()) {
      StartFinish(grpc::Status(
          grpc::StatusCode::NOT_FOUND,
          absl::StrCat("no health of '", request.service(), "'; ask for that of the server, ''")));
    } else {
      HealthCheckResponse response;
      response.set_status(services_->serving ? HealthCheckResponse::SERVING
                                             : HealthCheckResponse::NOT_SERVING);
      StartWriteAndFinish(Serialized(response));
    }
    return false;
  }
  void OnReadEnd() override {
    StartFinish(grpc::Status(grpc::StatusCode::CANCELLED, "no request came"));
  }
  void OnDone() override { const std::unique_ptr<HealthCheck> self(this); }

  const std::shared_ptr<const GrpcStandardServices> services_;  // shared with the server
};

// Answers reflection requests one after another. Deletes itself in OnDone.
class Reflection final : public GrpcServedCall {
 public:
  Reflection(std::unique_ptr<GrpcIncoming> call,
             std::shared_ptr<const GrpcStandardServices> services)
      : GrpcServedCall(std::move(call)), services_(std::move(services)) {}
  void Start() { StartReading(); }

 private:
  bool OnMessage(const grpc::ByteBuffer& message) override {
    ServerReflectionRequest request;
    if (Parse(message, request)) {
      StartWrite(Serialized(ReflectionAnswer(request, services_->names)));
    } else {
      StartFinish(Malformed<ServerReflectionRequest>());
    }
    return false;
  }
  void OnReadEnd() override { StartFinish(grpc::Status::OK); }
  void OnWriteDone(bool) override { StartReading(); }
  void OnDone() override { const std::unique_ptr<Reflection> self(this); }

  const std::shared_ptr<const GrpcStandardServices> services_;  // shared with the server
};

const google::protobuf::ServiceDescriptor& HealthService() {
  return *HealthCheckRequest::descriptor()->file()->service(0);
}
const google::protobuf::ServiceDescriptor& ReflectionService() {
  return *ServerReflectionRequest::descriptor()->file()->service(0);
}

}  // namespace

std::vector<std::string> StandardServiceNames() {
  return {HealthService().full_name(), ReflectionService().full_name()};
}

bool ServeStandardCall(std::unique_ptr<GrpcIncoming>& call,
                       const std::shared_ptr<const GrpcStandardServices>& services) {
  // The names are never destroyed, because calls may arrive while the process ends.
  static const std::string* const check =
      new std::string(FullMethodName(*HealthService().method(0)));
  static const std::string* const reflect =
      new std::string(FullMethodName(*ReflectionService().method(0)));
  const std::string& method = call->context->method();
  if (method == *check) {
    (new HealthCheck(std::move(call), services))->Start();
  } else if (method == *reflect) {
    (new Reflection(std::move(call), services))->Start();
  } else {
    return false;
  }
  return true;
}

}  // namespace cohort
