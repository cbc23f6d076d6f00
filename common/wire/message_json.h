#pragma once

// Protobuf messages as JSON: Protobuf's own mapping, with fields named as in the .proto files.

#include <string>

#include "absl/status/statusor.h"
#include "google/protobuf/message.h"

namespace cohort {

// Returns a message as one line of JSON, without a line end. Primitive fields that are not set
// appear as well. Errors: INTERNAL.
absl::StatusOr<std::string> MessageToJson(const google::protobuf::Message& message);

// Reads a message from JSON. Keys that are not fields of `message` are ignored, because a later
// version of Cohort may have written them. Errors: INVALID_ARGUMENT saying what is wrong.
absl::Status MessageFromJson(absl::string_view json, google::protobuf::Message& message);

}  // namespace cohort
