#pragma once

#include <sys/types.h>

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/base/unique_fd.h"
#include "coordinator/local/process_id.h"

namespace cohort {

// The description of a child process to start. The child gets a process group of its own: Ctrl-C
// and `timeout` signal whole groups, but the child must end only when its parent says so, after the
// work done is saved. Without `record`, the kernel sends the child SIGTERM when the thread that
// started it ends, so such children must be started from a thread that lives as long as they are
// needed.
struct ChildOptions {
  std::string program;                             // path of the program file
  std::vector<std::string> arguments;              // arguments without argv[0]
  std::map<std::string, std::string> environment;  // added to the parent's own environment
  std::string output_file;                         // file to which stdout and stderr are appended
  // Writes down the new child, so that it may outlive a killed parent and be adopted by the next
  // one. Runs before the child runs its program. If the parent dies first or this function fails,
  // the program never runs: no child lives that is not written down.
  std::function<absl::Status(pid_t)> record;
};

// Starts a child and returns its process id. Errors: NOT_FOUND for a program that does not exist;
// the system's error otherwise; those of `record`.
absl::StatusOr<pid_t> StartChild(const ChildOptions& options);

// Returns how a child ended, "killed by signal 9" or "exit code 2", or nothing while the child
// runs. Reaps an ended child.
std::optional<std::string> PollChild(pid_t pid);

// A process that this coordinator started, or that an earlier coordinator started and that still
// runs. The process ends neither with this object nor with the coordinator. Thread-compatible.
class SupervisedProcess {
 public:
  // Starts a child. Errors: those of StartChild.
  static absl::StatusOr<SupervisedProcess> Start(const ChildOptions& options);
  // Takes over a process that an earlier coordinator started. Errors: NOT_FOUND when this very
  // process has ended; the system's error otherwise.
  static absl::StatusOr<SupervisedProcess> Adopt(const ProcessId& id);

  pid_t pid() const { return pid_; }
  bool adopted() const { return descriptor_.ok(); }
  void Signal(int signal) const;
  // Returns how the process ended, once, or nothing while it runs. Never blocks. For an adopted
  // process the way it ended is unknown, because the kernel tells only the parent.
  std::optional<std::string> Poll() const;

 private:
  SupervisedProcess(pid_t pid, UniqueFd descriptor)
      : pid_(pid), descriptor_(std::move(descriptor)) {}

  pid_t pid_;
  // A descriptor of an adopted process, whose process number may belong to another process by now.
  UniqueFd descriptor_;
};

}  // namespace cohort
