#include "common/wire/grpc/grpc_standard_calls.h"

#include <set>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/wire/grpc/grpc_bytes.h"
#include "common/wire/method_table.h"
#include "google/protobuf/descriptor.h"
#include "google/protobuf/descriptor.pb.h"
#include "proto/health.pb.h"
#include "proto/reflection.pb.h"

namespace cohort {

namespace {

using google::protobuf::Descriptor;
using google::protobuf::DescriptorPool;
using google::protobuf::FieldDescriptor;
using google::protobuf::FileDescriptor;
using grpc::health::v1::HealthCheckRequest;
using grpc::health::v1::HealthCheckResponse;
using grpc::reflection::v1alpha::ServerReflectionRequest;
using grpc::reflection::v1alpha::ServerReflectionResponse;

// Parses a message of a standard service, which is a plain proto and not a frame of this project.
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

// Answers one call of the health service. Deletes itself in OnDone.
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
      // The server knows only its own health, not that of its single services.
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

  // The state of the standard services, shared with the server.
  const std::shared_ptr<const GrpcStandardServices> services_;
};

void NotFound(const std::string& what, ServerReflectionResponse& answer) {
  auto& error = *answer.mutable_error_response();
  error.set_error_code(static_cast<int32_t>(absl::StatusCode::kNotFound));
  error.set_error_message(absl::StrCat("this server does not know ", what));
}

// Adds a file and all files that it imports to the answer, each once. A client needs all of them to
// build the types.
void AddWithImports(const FileDescriptor& file, std::set<const FileDescriptor*>& added,
                    ServerReflectionResponse& answer) {
  if (!added.insert(&file).second) return;
  google::protobuf::FileDescriptorProto proto;
  file.CopyTo(&proto);
  answer.mutable_file_descriptor_response()->add_file_descriptor_proto(proto.SerializeAsString());
  for (int i = 0; i < file.dependency_count(); ++i) {
    AddWithImports(*file.dependency(i), added, answer);
  }
}

void AnswerFile(const FileDescriptor* file, const std::string& what,
                ServerReflectionResponse& answer) {
  if (file == nullptr) return NotFound(what, answer);
  std::set<const FileDescriptor*> added;  // ordered by pointer, an order that is never used
  AddWithImports(*file, added, answer);
}

// Returns the file that declares the extension `number` of the message type `type`. Returns null if
// no file does.
const FileDescriptor* FileOfExtension(const std::string& type, int number) {
  const DescriptorPool& pool = *DescriptorPool::generated_pool();
  const Descriptor* const extended = pool.FindMessageTypeByName(type);
  if (extended == nullptr) return nullptr;
  const FieldDescriptor* const field = pool.FindExtensionByNumber(extended, number);
  return field == nullptr ? nullptr : field->file();
}

void AnswerExtensions(const std::string& type, ServerReflectionResponse& answer) {
  const DescriptorPool& pool = *DescriptorPool::generated_pool();
  const Descriptor* const extended = pool.FindMessageTypeByName(type);
  if (extended == nullptr) return NotFound(type, answer);
  std::vector<const FieldDescriptor*> fields;
  pool.FindAllExtensions(extended, &fields);
  auto& numbers = *answer.mutable_all_extension_numbers_response();
  numbers.set_base_type_name(type);
  for (const FieldDescriptor* field : fields) numbers.add_extension_number(field->number());
}

// Answers a request of the reflection service from the descriptors that are linked into this
// executable. `services` are the names of the server's services. For an unknown name, the answer
// contains the error NOT_FOUND.
ServerReflectionResponse ReflectionAnswer(const ServerReflectionRequest& request,
                                          const std::vector<std::string>& services) {
  const DescriptorPool& pool = *DescriptorPool::generated_pool();
  ServerReflectionResponse answer;
  answer.set_valid_host(request.host());
  *answer.mutable_original_request() = request;
  switch (request.message_request_case()) {
    case ServerReflectionRequest::kFileByFilename:
      AnswerFile(pool.FindFileByName(request.file_by_filename()),
                 absl::StrCat("the file ", request.file_by_filename()), answer);
      break;
    case ServerReflectionRequest::kFileContainingSymbol:
      AnswerFile(pool.FindFileContainingSymbol(request.file_containing_symbol()),
                 request.file_containing_symbol(), answer);
      break;
    case ServerReflectionRequest::kFileContainingExtension: {
      const auto& extension = request.file_containing_extension();
      AnswerFile(FileOfExtension(extension.containing_type(), extension.extension_number()),
                 absl::StrCat("extension ", extension.extension_number(), " of ",
                              extension.containing_type()),
                 answer);
      break;
    }
    case ServerReflectionRequest::kAllExtensionNumbersOfType:
      AnswerExtensions(request.all_extension_numbers_of_type(), answer);
      break;
    case ServerReflectionRequest::kListServices:
      for (const std::string& service : services) {
        answer.mutable_list_services_response()->add_service()->set_name(service);
      }
      break;
    case ServerReflectionRequest::MESSAGE_REQUEST_NOT_SET:
      auto& error = *answer.mutable_error_response();
      error.set_error_code(static_cast<int32_t>(absl::StatusCode::kInvalidArgument));
      error.set_error_message("a request that asks for nothing");
      break;
  }
  return answer;
}

// Answers the requests of one call of the reflection service, one after another. Deletes itself in
// OnDone.
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

  // The state of the standard services, shared with the server.
  const std::shared_ptr<const GrpcStandardServices> services_;
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
  // The two names are never destroyed, because calls may arrive while the process ends.
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
