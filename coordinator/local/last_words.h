#pragma once

// The last line of a task's log, for messages about a task that has ended.

#include <cstdint>
#include <string>

#include "common/base/file_system.h"

namespace cohort {

// Returns the size of a log file in bytes: 0 if the file does not exist or cannot be read.
uint64_t LogSize(FileSystem& files, const std::string& log);

// Returns the last line of a log that is not blank, as printable text of a bounded length. Looks
// only at what was written after the first `skip` bytes, which earlier processes have written.
// Returns "" if there is no such line.
std::string LastWords(FileSystem& files, const std::string& log, uint64_t skip);

}  // namespace cohort
