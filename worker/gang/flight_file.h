#pragma once

// A flight file is the record of a group's collective calls. The worker writes the file when the
// group has been aborted, so that the record can be read after the worker is gone. `coordinator ctl
// flight-record` shows the files of several workers side by side.

#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/base/file_system.h"
#include "proto/collective.pb.h"

namespace cohort {

// The largest number of files of one task in one directory; when the limit is exceeded, the oldest
// file is removed.
inline constexpr size_t kFlightFilesMax = 4;

// Writes a file and returns its path: "cohort-worker-1-20261125T053019.123456Z.flight.json" in
// `directory`, which is made if it is missing. The file holds `flight` as JSON, about 230 bytes for
// each call. Blocks. Errors: those of WriteFileAtomically.
absl::StatusOr<std::string> WriteFlightFile(FileSystem& files, const std::string& directory,
                                            const proto::TaskRef& task,
                                            const proto::GroupFlight& flight, absl::Time now);

}  // namespace cohort
