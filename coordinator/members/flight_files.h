#pragma once

// The flight files, in which workers keep the calls of aborted groups (worker/gang/flight_file.h).
// The files are read into the form in which workers answer the question for flight records.

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/base/file_system.h"
#include "proto/ctl.pb.h"

namespace cohort {

// Returns the newest `calls_max` calls of each file, grouped by worker. Errors: INVALID_ARGUMENT
// naming a file that is not a flight file, and those of ReadFile.
absl::StatusOr<proto::AskFlightRecordsResponse> ReadFlightFiles(
    FileSystem& files, const std::vector<std::string>& paths, int calls_max);

}  // namespace cohort
