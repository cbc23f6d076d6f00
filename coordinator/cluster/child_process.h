#pragma once

#include <sys/types.h>

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace cohort {

// A process that this one started. It gets SIGTERM from the kernel when the thread that started it
// ends, so that no child outlives a killed coordinator: start children from threads that live as
// long as the process.
struct ChildOptions {
  std::string program;                            // path
  std::vector<std::string> arguments;             // without argv[0]
  std::map<std::string, std::string> environment; // added to this process's own
  std::string output_file;                        // stdout and stderr are appended here
};

// Errors: NOT_FOUND for a program that is not there; the system's error otherwise.
absl::StatusOr<pid_t> StartChild(const ChildOptions& options);

// How a child ended, "killed by signal 9" or "exit code 2"; nothing while it runs. Reaps it.
std::optional<std::string> PollChild(pid_t pid);

}  // namespace cohort
