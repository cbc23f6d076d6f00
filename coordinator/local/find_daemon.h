#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace cohort {

// Finds the daemon "ps" or "worker": in `directory` as "cohort-ps", as an installation has it, or
// as "ps", as a build has it. An empty directory stands for that of this program and, if the daemon
// is not there, for PATH, in which only "cohort-ps" counts: another program is called ps. Returns
// its path. Errors: NOT_FOUND naming what was looked for, where, and the remedy.
absl::StatusOr<std::string> FindDaemon(absl::string_view name, const std::string& directory);

}  // namespace cohort
