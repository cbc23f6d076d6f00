#include "coordinator/cluster/child_process.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/base/status.h"
#include "common/cluster/environment.h"

namespace cohort {

namespace {

std::vector<char*> Pointers(std::vector<std::string>& texts) {
  std::vector<char*> pointers;
  for (std::string& text : texts) pointers.push_back(text.data());
  pointers.push_back(nullptr);
  return pointers;
}

}  // namespace

absl::StatusOr<pid_t> StartChild(const ChildOptions& options) {
  if (access(options.program.c_str(), X_OK) != 0) {
    return ErrnoStatus(errno, absl::StrCat("cannot run ", options.program));
  }
  std::vector<std::string> arguments = options.arguments;
  arguments.insert(arguments.begin(), options.program);
  std::vector<char*> argv = Pointers(arguments);
  std::vector<std::string> environment = ChildEnvironment(options.environment);
  std::vector<char*> envp = Pointers(environment);
  const int output =
      open(options.output_file.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
  if (output < 0) return ErrnoStatus(errno, absl::StrCat("cannot open ", options.output_file));
  const pid_t parent = getpid();
  const pid_t pid = fork();
  if (pid == 0) {
    // Only async-signal-safe calls here: the parent has threads.
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, nullptr);
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    if (getppid() != parent) _exit(127);
    dup2(output, STDOUT_FILENO);
    dup2(output, STDERR_FILENO);
    execve(options.program.c_str(), argv.data(), envp.data());
    _exit(127);
  }
  const int error_number = errno;
  close(output);
  if (pid < 0) return ErrnoStatus(error_number, absl::StrCat("cannot start ", options.program));
  return pid;
}

std::optional<std::string> PollChild(pid_t pid) {
  int state = 0;
  const pid_t ended = waitpid(pid, &state, WNOHANG);
  if (ended == 0 || (ended < 0 && errno == EINTR)) return std::nullopt;
  if (ended < 0) return "gone";
  if (WIFSIGNALED(state)) return absl::StrCat("killed by signal ", WTERMSIG(state));
  return absl::StrCat("exit code ", WEXITSTATUS(state));
}

}  // namespace cohort
