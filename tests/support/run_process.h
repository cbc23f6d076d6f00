#pragma once

// Runs a real program to its end.

#include <map>
#include <string>
#include <vector>

#include "absl/time/time.h"

namespace cohort {

struct ProcessRun {
  int exit_code = -1;   // -1: killed after the time-out; 128 + n: died of signal n
  std::string out, err;
  // The last line of `out`, without its newline.
  std::string LastLine() const;
};

// Environment entries are added to this process's; an empty value unsets. stdin is empty.
ProcessRun RunProcess(const std::string& program, const std::vector<std::string>& arguments,
                      const std::map<std::string, std::string>& environment,
                      absl::Duration timeout);

// A new directory under the test's temporary directory.
std::string MakeTemporaryDirectory(const std::string& stem);

}  // namespace cohort
