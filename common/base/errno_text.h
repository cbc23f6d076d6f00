#pragma once

// The text of an operating-system error number, for messages that are not made by
// ErrnoStatus (status.h).

#include <string>

namespace cohort {

// Returns the text of an error number of the operating system, such as "No space left on device".
// If the file is too large for this process (EFBIG), the text names the limit, `ulimit -f`.
std::string ErrnoText(int error_number);

}  // namespace cohort
