#pragma once

// The memory of a parameter server from start to start: the last epoch that it granted, and to
// whom. Without it a server that was started again would grant that epoch to another coordinator.

#include <string>

#include "absl/status/statusor.h"
#include "common/base/file_system.h"
#include "common/task/task_service.h"

namespace cohort {

// Reads the grant; epoch 0 means that there is no such file yet. Errors: DATA_LOSS naming the file
// and what to do; those of the file system.
absl::StatusOr<EpochGrant> ReadGrant(FileSystem& files, const std::string& path);

// Writes the grant, which survives a crash from this return on. Errors: those of the file system,
// naming the file.
absl::Status WriteGrant(FileSystem& files, const std::string& path, const EpochGrant& grant);

}  // namespace cohort
