#pragma once

// The command `coordinator data`, by which a person looks at files of records, counts, checks,
// converts and indexes them. It needs no job and no cluster.

#include <string>
#include <vector>

#include "common/base/file_system.h"
#include "coordinator/inspect/inspect_command.h"

namespace cohort {

// Runs a command line, given from the word "data" on. The exit codes: 0 done; 1 `check` has found
// damage, or the output cannot be written; 2 the command line or a file is wrong.
InspectResult RunDataCommand(const std::vector<std::string>& arguments, FileSystem& files);

}  // namespace cohort
