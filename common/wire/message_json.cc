#include "common/wire/message_json.h"

#include "absl/strings/str_cat.h"
#include "google/protobuf/util/json_util.h"

namespace cohort {

absl::StatusOr<std::string> MessageToJson(const google::protobuf::Message& message) {
  google::protobuf::util::JsonPrintOptions options;
  // Fields with the value 0 are written as well, so that a reader of the JSON sees all fields of
  // the message.
  options.always_print_primitive_fields = true;
  options.preserve_proto_field_names = true;
  std::string text;
  const auto written = google::protobuf::util::MessageToJsonString(message, &text, options);
  if (written.ok()) return text;
  return absl::InternalError(
      absl::StrCat("this cannot be written as JSON: ", std::string(written.message())));
}

absl::Status MessageFromJson(absl::string_view json, google::protobuf::Message& message) {
  google::protobuf::util::JsonParseOptions options;
  options.ignore_unknown_fields = true;
  const auto read =
      google::protobuf::util::JsonStringToMessage({json.data(), json.size()}, &message, options);
  if (read.ok()) return absl::OkStatus();
  return absl::InvalidArgumentError(std::string(read.message()));
}

}  // namespace cohort
