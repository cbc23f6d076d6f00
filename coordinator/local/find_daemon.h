#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace cohort {

// Returns the path of the daemon `name`, "ps" or "worker". Looks in `directory` for "cohort-ps",
// the name in an installation, and for "ps", the name in a build. If `directory` is empty, looks in
// the directory of this program and then along PATH; along PATH only "cohort-ps" counts, because
// another program is called ps. Errors: NOT_FOUND naming the files, the places that were searched,
// and the remedy.
absl::StatusOr<std::string> FindDaemon(absl::string_view name, const std::string& directory);

}  // namespace cohort
