#include "coordinator/local/child_process.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/base/status.h"
#include "common/base/turns.h"
#include "common/cluster/environment.h"

namespace cohort {

namespace {

// Returns the texts as execve expects them: an array of pointers that ends with null.
std::vector<char*> Pointers(std::vector<std::string>& texts) {
  std::vector<char*> pointers;
  for (std::string& text : texts) pointers.push_back(text.data());
  pointers.push_back(nullptr);
  return pointers;
}

// A pipe at which a new child process waits until its parent lets it run. Thread-compatible.
class Gate {
 public:
  Gate() {
    std::array<int, 2> ends = {-1, -1};
    if (pipe2(ends.data(), O_CLOEXEC) != 0) return;
    read_end_ = UniqueFd(ends[0]);
    write_end_ = UniqueFd(ends[1]);
  }
  bool ok() const { return read_end_.ok(); }

  void Open() const {
    // The parent holds the read end too, so this write neither blocks nor raises SIGPIPE.
    [[maybe_unused]] const ssize_t written = write(write_end_.get(), "", 1);
  }

  // Called in the child process: waits until the parent opens the gate. Returns false if the parent
  // ended without opening it. Async-signal-safe.
  bool Pass() const {
    // The child must close its own copy of the write end, or it would never notice that the parent
    // has died.
    close(write_end_.get());
    char byte = 0;
    ssize_t got = 0;
    do {
      got = read(read_end_.get(), &byte, 1);
    } while (got < 0 && errno == EINTR);
    return got == 1;
  }

 private:
  UniqueFd read_end_, write_end_;
};

// Calls options.record for the child. If that fails, kills the child, which still waits at the
// gate.
absl::Status RecordChild(const ChildOptions& options, pid_t pid) {
  if (!options.record) return absl::OkStatus();
  const absl::Status recorded = options.record(pid);
  if (recorded.ok()) return recorded;
  kill(pid, SIGKILL);
  waitpid(pid, nullptr, 0);
  return recorded;
}

}  // namespace

absl::StatusOr<pid_t> StartChild(const ChildOptions& options) {
  if (access(options.program.c_str(), X_OK) != 0) {
    return ErrnoStatus(errno, absl::StrCat("cannot run ", options.program));
  }
  std::vector<std::string> arguments = options.arguments;
  arguments.insert(arguments.begin(), options.program);
  // All memory is allocated before the fork, because the child must not allocate memory.
  std::vector<char*> argv = Pointers(arguments);
  std::vector<std::string> environment = ChildEnvironment(options.environment);
  std::vector<char*> envp = Pointers(environment);
  const int output =
      open(options.output_file.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
  if (output < 0) return ErrnoStatus(errno, absl::StrCat("cannot open ", options.output_file));
  const Gate gate;
  if (!gate.ok()) {
    close(output);
    return ErrnoStatus(errno, "cannot make a pipe");
  }
  const bool outlives_parent = options.record != nullptr;
  const pid_t parent = getpid();
  const pid_t pid = fork();
  if (pid == 0) {
    // The child makes only async-signal-safe calls, because another thread of the parent may have
    // held a lock during the fork.
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, nullptr);
    SetTurns(Turns::kUsual);
    setpgid(0, 0);
    if (!outlives_parent) {
      prctl(PR_SET_PDEATHSIG, SIGTERM);
      // If the parent died before prctl, the child would get no signal, so it ends itself.
      if (getppid() != parent) _exit(127);
    }
    if (!gate.Pass()) _exit(127);
    dup2(output, STDOUT_FILENO);
    dup2(output, STDERR_FILENO);
    execve(options.program.c_str(), argv.data(), envp.data());
    _exit(127);
  }
  const int error_number = errno;
  close(output);
  if (pid < 0) return ErrnoStatus(error_number, absl::StrCat("cannot start ", options.program));
  // The parent calls setpgid as well, so that from here on signals to the parent's group do not
  // reach the child.
  setpgid(pid, pid);
  RETURN_IF_ERROR(RecordChild(options, pid));
  gate.Open();
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

absl::StatusOr<SupervisedProcess> SupervisedProcess::Start(const ChildOptions& options) {
  ASSIGN_OR_RETURN(const pid_t pid, StartChild(options));
  return SupervisedProcess(pid, UniqueFd());
}

absl::StatusOr<SupervisedProcess> SupervisedProcess::Adopt(const ProcessId& id) {
  // The pidfd system calls are made by number: glibc 2.36 declares them in no header that C++ can
  // include.
  UniqueFd descriptor(static_cast<int>(syscall(SYS_pidfd_open, id.pid, 0)));
  if (!descriptor.ok() && errno == ESRCH) return absl::NotFoundError("the process has ended");
  if (!descriptor.ok()) {
    return ErrnoStatus(errno, absl::StrCat("cannot watch the process ", id.pid));
  }
  // The descriptor is opened before the identity is read, so both belong to the same process.
  ASSIGN_OR_RETURN(const ProcessId present, IdentifyProcess(id.pid));
  if (!(present == id)) {
    return absl::NotFoundError(absl::StrCat("the number ", id.pid, " is another process's now"));
  }
  return SupervisedProcess(id.pid, std::move(descriptor));
}

void SupervisedProcess::Signal(int signal) const {
  if (!adopted()) {
    kill(pid_, signal);  // no other process can get this number before the child is reaped
  } else {
    syscall(SYS_pidfd_send_signal, descriptor_.get(), signal, nullptr, 0);
  }
}

std::optional<std::string> SupervisedProcess::Poll() const {
  if (!adopted()) return PollChild(pid_);
  pollfd wait = {descriptor_.get(), POLLIN, 0};
  if (poll(&wait, 1, 0) <= 0) return std::nullopt;
  return "how is not known, it was adopted";
}

}  // namespace cohort
