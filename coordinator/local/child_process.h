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

// Describes a child process to start. The child gets its own process group: Ctrl-C and `timeout`
// signal whole groups, but the child must end only when its parent says so, after its work is
// saved. Without `record`, the kernel sends the child SIGTERM when the thread that started it ends,
// so that thread must live as long as the child is needed.
struct ChildOptions {
  std::string program;                 // path of the program file
  std::vector<std::string> arguments;  // arguments without argv[0]
  // Variables added to the parent's own environment.
  std::map<std::string, std::string> environment;
  std::string output_file;  // file to which stdout and stderr are appended
  // Records the new child, so that it may outlive a killed parent and be adopted by the next one.
  // Called before the child runs its program. If the parent dies before that or this function
  // fails, the program never runs, so there is no unrecorded child.
  std::function<absl::Status(pid_t)> record;
};

// Starts a child and returns its process id. Errors: NOT_FOUND for a program that does not exist;
// the system's error otherwise; those of `record`.
absl::StatusOr<pid_t> StartChild(const ChildOptions& options);

// Returns how a child ended, "killed by signal 9" or "exit code 2", or nothing while the child
// runs. Reaps an ended child.
std::optional<std::string> PollChild(pid_t pid);

// A process that this coordinator started, or one that an earlier coordinator started and that
// still runs. The process ends neither with this object nor with the coordinator.
// Thread-compatible.
class SupervisedProcess {
 public:
  // Starts a child. Errors: those of StartChild.
  static absl::StatusOr<SupervisedProcess> Start(const ChildOptions& options);
  // Takes over a process that an earlier coordinator started. Errors: NOT_FOUND when that process
  // has ended, even if its number is in use again; the system's error otherwise.
  static absl::StatusOr<SupervisedProcess> Adopt(const ProcessId& id);

  pid_t pid() const { return pid_; }
  bool adopted() const { return descriptor_.ok(); }
  void Signal(int signal) const;
  // Returns a description of how the process ended, once, or nothing while it runs. Never blocks.
  // For an adopted process the description says that it is unknown, because the kernel tells only
  // the parent.
  std::optional<std::string> Poll() const;

 private:
  SupervisedProcess(pid_t pid, UniqueFd descriptor)
      : pid_(pid), descriptor_(std::move(descriptor)) {}

  pid_t pid_;
  // A descriptor of an adopted process. It stays valid even if the process has ended and its number
  // was given to another process.
  UniqueFd descriptor_;
};

}  // namespace cohort
