#include "common/wire/grpc/reflection.h"

#include <set>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "google/protobuf/descriptor.h"
#include "google/protobuf/descriptor.pb.h"

namespace cohort {

namespace {

using google::protobuf::Descriptor;
using google::protobuf::DescriptorPool;
using google::protobuf::FieldDescriptor;
using google::protobuf::FileDescriptor;
using grpc::reflection::v1alpha::ServerReflectionRequest;
using grpc::reflection::v1alpha::ServerReflectionResponse;

void NotFound(const std::string& what, ServerReflectionResponse& answer) {
  auto& error = *answer.mutable_error_response();
  error.set_error_code(static_cast<int32_t>(absl::StatusCode::kNotFound));
  error.set_error_message(absl::StrCat("this server does not know ", what));
}

// Adds a file and all files that it imports, each once: a client needs them to build the types.
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

// Returns the file that declares an extension of `type`, or null.
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

}  // namespace

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

}  // namespace cohort
