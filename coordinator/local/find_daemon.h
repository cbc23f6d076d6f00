#pragma once

// Finds the executables that a local cluster starts.

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace cohort {

// Returns the path of the daemon `name`, which is "ps" or "worker". Looks in `directory` for the
// name of an installation ("cohort-ps"), and then for the name of a build ("ps"). If `directory` is
// empty, looks in the directory of this executable, and then for the name of an installation along
// PATH, where "ps" is another program. Errors: NOT_FOUND naming the files, the places, and the
// remedy.
absl::StatusOr<std::string> FindDaemon(absl::string_view name, const std::string& directory);

}  // namespace cohort
