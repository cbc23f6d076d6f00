#pragma once

// What a group's calls did, in a file: written when the group has been aborted, for the question
// what happened that is asked when the worker is gone, or long after. `coordinator ctl
// flight-record` lays the files of several workers side by side.

#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/base/file_system.h"
#include "proto/collective.pb.h"

namespace cohort {

// Of one task in one directory; the oldest goes when there is one more.
inline constexpr size_t kFlightFilesMax = 4;

// Its path: "cohort-worker-1-20261125T053019.123456Z.flight.json" in the directory, which is made
// where it is missing. JSON of the message, about 230 bytes for a call. Blocks. Errors: those of
// WriteFileAtomically.
absl::StatusOr<std::string> WriteFlightFile(FileSystem& files, const std::string& directory,
                                            const proto::TaskRef& task,
                                            const proto::GroupFlight& flight, absl::Time now);

}  // namespace cohort
