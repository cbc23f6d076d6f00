#pragma once

// The grant file of a parameter server, which keeps across restarts the last epoch that the server
// granted and the coordinator that it was granted to. Without the file, a restarted server would
// grant the same epoch to another coordinator.

#include <string>

#include "absl/status/statusor.h"
#include "common/base/file_system.h"
#include "common/task/task_service.h"

namespace cohort {

// Reads the last granted epoch from the grant file `path`. The result has epoch 0 if there is no
// grant file yet. Errors: DATA_LOSS that names a damaged file and says what to do; those of the
// file system.
absl::StatusOr<EpochGrant> ReadGrant(FileSystem& files, const std::string& path);

// Writes a granted epoch to the grant file `path`. Once the function has returned, the grant
// survives a crash. Errors: those of the file system, naming the file.
absl::Status WriteGrant(FileSystem& files, const std::string& path, const EpochGrant& grant);

}  // namespace cohort
