#include "coordinator/job/overrides.h"

#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "common/base/status.h"
#include "common/cluster/json_text.h"
#include "nlohmann/json.hpp"

namespace cohort {
namespace {

using nlohmann::json;

// Returns the child of `parent` named `part`, which is added if an object lacks it.
absl::StatusOr<json*> Child(json& parent, const std::string& part, const std::string& so_far) {
  // A null parent, or one that was just made, becomes an object.
  if (parent.is_null()) parent = json::object();
  if (parent.is_object()) return &parent[part];
  if (!parent.is_array()) {
    return absl::InvalidArgumentError(
        absl::StrCat("'", so_far, "' is ", JsonExcerpt(parent),
                     ", which has no fields; set the whole of it, or write it as an object"));
  }
  uint32_t index = 0;
  // Lists do not grow: an index after the last item is an error.
  if (!absl::SimpleAtoi(part, &index) || index >= parent.size()) {
    return absl::InvalidArgumentError(absl::StrCat("'", so_far, "' is a list of ", parent.size(),
                                                   " items, which has no item '", part,
                                                   "' (items count from 0)"));
  }
  return &parent[index];
}

absl::Status ApplyOne(const std::string& override_text, json& job) {
  const size_t equals = override_text.find('=');
  if (equals == std::string::npos || equals == 0) {
    return absl::InvalidArgumentError("it must have the form path=value, such as fit.epochs=3");
  }
  const std::string path = override_text.substr(0, equals);
  const std::string text = override_text.substr(equals + 1);
  const std::vector<std::string> parts = absl::StrSplit(path, '.');
  // The path may not be deeper than a job file may be.
  if (parts.size() > static_cast<size_t>(kJsonDepthMax)) {
    return absl::InvalidArgumentError(
        absl::StrCat("its path has more than ", kJsonDepthMax, " parts"));
  }
  json* target = &job;
  std::string so_far;
  for (const std::string& part : parts) {
    if (part.empty()) return absl::InvalidArgumentError("a part of its path is empty");
    ASSIGN_OR_RETURN(target, Child(*target, part, so_far));
    absl::StrAppend(&so_far, so_far.empty() ? "" : ".", part);
  }
  // Text that is not JSON is a string, so that quotes are not needed. Text that begins as an object
  // or a list is meant as JSON.
  absl::StatusOr<json> value = ParseJsonText(text);
  if (!value.ok() && (absl::StartsWith(text, "{") || absl::StartsWith(text, "["))) {
    return value.status();
  }
  *target = value.ok() ? *std::move(value) : json(text);
  return absl::OkStatus();
}

}  // namespace

absl::Status ApplyOverrides(absl::Span<const std::string> overrides, json& job) {
  for (const std::string& one : overrides) {
    RETURN_IF_ERROR(Annotate(ApplyOne(one, job), absl::StrCat("--set ", one)));
  }
  return absl::OkStatus();
}

}  // namespace cohort
