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

// Returns pointers to the texts, followed by a null pointer: the form that execve takes.
std::vector<char*> Pointers(std::vector<std::string>& texts) {
  std::vector<char*> pointers;
  for (std::string& text : texts) pointers.push_back(text.data());
  pointers.push_back(nullptr);
  return pointers;
}

// A pipe at which a new child process waits until its parent lets it continue. Thread-compatible.
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
    // The parent itself still holds the read end of the pipe. So this write neither blocks nor
    // raises SIGPIPE.
    [[maybe_unused]] const ssize_t written = write(write_end_.get(), "", 1);
  }

  // Waits in the child process until the parent opens the gate. Returns false if the parent has
  // ended without opening it. Async-signal-safe.
  bool Pass() const {
    // The child closes its own copy of the write end. Otherwise it would not notice the death of
    // the parent, which closes the other copy.
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

// Calls options.record for a child that waits at its gate. If that fails, kills the child, and
// returns the error.
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
  // Memory is allocated before the fork, because the child must not allocate any.
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
    // The child may make only async-signal-safe calls: at the fork, another thread of the parent
    // may have held a lock, which the child's copy of the lock then never releases.
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, nullptr);
    SetTurns(Turns::kUsual);
    setpgid(0, 0);
    if (!outlives_parent) {
      prctl(PR_SET_PDEATHSIG, SIGTERM);
      // If the parent died before the call of prctl, the child gets no signal. So it ends by
      // itself.
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
  // Parent and child both call setpgid. So from here on, whichever comes first, signals to the
  // parent's group do not reach the child.
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
  // The pidfd system calls are made by their numbers, because glibc 2.36 declares them in no header
  // that C++ can include.
  UniqueFd descriptor(static_cast<int>(syscall(SYS_pidfd_open, id.pid, 0)));
  if (!descriptor.ok() && errno == ESRCH) return absl::NotFoundError("the process has ended");
  if (!descriptor.ok()) {
    return ErrnoStatus(errno, absl::StrCat("cannot watch the process ", id.pid));
  }
  // The descriptor was opened before the identity is read. So if the identity is the expected one,
  // the descriptor belongs to the same process.
  ASSIGN_OR_RETURN(const ProcessId present, IdentifyProcess(id.pid));
  if (!(present == id)) {
    return absl::NotFoundError(absl::StrCat("the number ", id.pid, " is another process's now"));
  }
  return SupervisedProcess(id.pid, std::move(descriptor));
}

void SupervisedProcess::Signal(int signal) const {
  if (!adopted()) {
    kill(pid_, signal);  // no other process gets this number before PollChild reaps the child
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
