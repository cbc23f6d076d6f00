#pragma once

// The files with which workers keep what the calls of aborted groups did
// (worker/gang/flight_file.h), as if the workers were asked.

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/base/file_system.h"
#include "proto/ctl.pb.h"

namespace cohort {

// Returns the newest `calls_max` calls of each file, by task. Errors: INVALID_ARGUMENT naming a
// file that is not a flight file, and those of ReadFile.
absl::StatusOr<proto::AskFlightRecordsResponse> ReadFlightFiles(
    FileSystem& files, const std::vector<std::string>& paths, int calls_max);

}  // namespace cohort
