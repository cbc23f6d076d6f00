#pragma once

// Messages as JSON: Protobuf's own mapping, with fields named as in the .proto files.

#include <string>

#include "absl/status/statusor.h"
#include "google/protobuf/message.h"

namespace cohort {

// Returns one line, without its end, that contains every field, set or not. Errors: INTERNAL.
absl::StatusOr<std::string> MessageToJson(const google::protobuf::Message& message);

// Fields that `message` does not know are passed over: a later version wrote them. Errors:
// INVALID_ARGUMENT saying what is wrong.
absl::Status MessageFromJson(absl::string_view json, google::protobuf::Message& message);

}  // namespace cohort
