#pragma once

// Processes that the coordinator of a local cluster starts. A child is recorded before it runs its
// program, so that a child which outlives its coordinator is found, and adopted or ended, by the
// next one.

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

// A child process to be started. The child gets a process group of its own: Ctrl-C and `timeout`
// signal whole groups, but the child must end only when its parent says so, after its work is
// saved. If `record` is not set, the child ends with its parent: the kernel sends it SIGTERM when
// the thread that started it ends, so this thread must live as long as the child is needed.
struct ChildOptions {
  std::string program;                 // path of the executable
  std::vector<std::string> arguments;  // arguments of the program, without argv[0]
  // Environment variables of the child, in addition to those of its parent.
  std::map<std::string, std::string> environment;
  std::string output_file;  // path of the file to which stdout and stderr are appended
  // Records the process id of the child. With this record, the child may outlive a parent that is
  // killed, and the next parent can find it. Called before the child runs its program. If this
  // function fails, or if the parent dies first, the program never runs. So no child runs without a
  // record.
  std::function<absl::Status(pid_t)> record;
};

// Starts a child and returns its process id. Errors: NOT_FOUND for a program that does not exist;
// errors of the system; those of `record`.
absl::StatusOr<pid_t> StartChild(const ChildOptions& options);

// Returns how a child of this process has ended, such as "killed by signal 9" or "exit code 2".
// Returns nothing while the child runs. Reaps a child that has ended.
std::optional<std::string> PollChild(pid_t pid);

// A process that this coordinator has started, or that an earlier coordinator has started and that
// this one has adopted. The process ends neither with this object nor with the coordinator.
// Thread-compatible.
class SupervisedProcess {
 public:
  // Starts a child process. Errors: those of StartChild.
  static absl::StatusOr<SupervisedProcess> Start(const ChildOptions& options);
  // Adopts a process that an earlier coordinator has started. Errors: NOT_FOUND if that process has
  // ended, even if its number belongs to another process now; errors of the system.
  static absl::StatusOr<SupervisedProcess> Adopt(const ProcessId& id);

  pid_t pid() const { return pid_; }
  bool adopted() const { return descriptor_.ok(); }
  void Signal(int signal) const;
  // Returns how the process has ended, or nullopt while it runs. Never blocks. For a child that has
  // ended, only the first call tells how. For an adopted process, the text says that this is not
  // known, because the kernel tells it only to the parent.
  std::optional<std::string> Poll() const;

 private:
  SupervisedProcess(pid_t pid, UniqueFd descriptor)
      : pid_(pid), descriptor_(std::move(descriptor)) {}

  pid_t pid_;
  // A descriptor (pidfd) of an adopted process, which keeps naming this process after its end, even
  // if another process gets its number.
  UniqueFd descriptor_;
};

}  // namespace cohort
