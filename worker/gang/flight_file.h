#pragma once

// A file with the record of a group's calls, written when the group has been aborted, for questions
// that are asked when the worker is gone, or long after. `coordinator ctl flight-record` lays the
// files of several workers side by side.

#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/base/file_system.h"
#include "proto/collective.pb.h"

namespace cohort {

// The number of files of one task in one directory; the oldest goes when there is one more.
inline constexpr size_t kFlightFilesMax = 4;

// Writes a file and returns its path: "cohort-worker-1-20261125T053019.123456Z.flight.json" in the
// directory, which is made if it is missing. The file has the message as JSON, about 230 bytes for
// a call. Blocks. Errors: those of WriteFileAtomically.
absl::StatusOr<std::string> WriteFlightFile(FileSystem& files, const std::string& directory,
                                            const proto::TaskRef& task,
                                            const proto::GroupFlight& flight, absl::Time now);

}  // namespace cohort
