#pragma once

// The commands `coordinator model` and `coordinator checkpoint`, by which a person looks at files
// of models and of trained weights. They need no job and no cluster.

#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "common/base/file_system.h"
#include "common/cluster/exit_codes.h"

namespace cohort {

struct InspectResult {
  int code = kExitOk;
  std::string output;  // printable ASCII and newlines, whatever the files hold
  std::string error;   // likewise
};

// Returns whether a command line that begins with this word is for RunInspect.
bool IsInspectCommand(absl::string_view word);

// Runs a command line, given from the word "model" or "checkpoint" on. The exit codes: 0 done; 1
// the two files of `checkpoint diff` differ, or the output cannot be written; 2 the command line or
// a file is wrong, or something in the model is not supported.
InspectResult RunInspect(const std::vector<std::string>& arguments, FileSystem& files);

}  // namespace cohort
