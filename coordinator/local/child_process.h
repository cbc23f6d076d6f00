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

// A process that this one starts, in a process group of its own: Ctrl-C and `timeout` signal whole
// groups, and the child is to end when this process says so, with what is done saved. Without
// `record` it gets SIGTERM from the kernel when the thread that started it ends: start such
// children from threads that live as long as they are needed.
struct ChildOptions {
  std::string program;                             // path
  std::vector<std::string> arguments;              // without argv[0]
  std::map<std::string, std::string> environment;  // added to this process's own
  std::string output_file;                         // stdout and stderr are appended here
  // Records a child that outlives a killed parent, so that the next parent adopts it. Runs before
  // the child runs its program; the program never runs if the parent dies first or this fails: no
  // child lives that is not written down.
  std::function<absl::Status(pid_t)> record;
};

// Errors: NOT_FOUND for a program that is not there; the system's error otherwise; those of
// `record`.
absl::StatusOr<pid_t> StartChild(const ChildOptions& options);

// Returns how a child ended, "killed by signal 9" or "exit code 2", or nothing while it runs. Reaps
// it.
std::optional<std::string> PollChild(pid_t pid);

// A process that this one started, or that a coordinator before it started and that goes on.
// Ends neither with this object nor with this process. Thread-compatible.
class SupervisedProcess {
 public:
  // Errors: those of StartChild.
  static absl::StatusOr<SupervisedProcess> Start(const ChildOptions& options);
  // Errors: NOT_FOUND when this very process has ended; the system's error otherwise.
  static absl::StatusOr<SupervisedProcess> Adopt(const ProcessId& id);

  pid_t pid() const { return pid_; }
  bool adopted() const { return descriptor_.ok(); }
  void Signal(int signal) const;
  // Returns how the process ended, once, or nothing while it runs. Never blocks. Only a parent
  // learns how.
  std::optional<std::string> Poll() const;

 private:
  SupervisedProcess(pid_t pid, UniqueFd descriptor)
      : pid_(pid), descriptor_(std::move(descriptor)) {}

  pid_t pid_;
  UniqueFd descriptor_;  // an adopted process's: its number may be another's by now
};

}  // namespace cohort
