#pragma once

// Names of data files with wildcards.

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/base/file_system.h"

namespace cohort {

// Returns the files that the path stands for: itself, or, if its last part has the wildcards *, ?
// or [ ] of the shell, the files that match it, in the order of their bytes, but for hidden ones
// and indexes (common/records/index_store.h). Errors: INVALID_ARGUMENT for a wildcard in a
// directory; NOT_FOUND if nothing matches; those of listing the directory.
absl::StatusOr<std::vector<std::string>> ExpandGlob(FileSystem& files, const std::string& path);

}  // namespace cohort
