#include "tests/support/run_process.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cstdlib>

#include "absl/strings/strip.h"
#include "common/base/check.h"

namespace cohort {

namespace {

struct Pipe {
  Pipe() {
    std::array<int, 2> ends{};
    COHORT_CHECK(pipe2(ends.data(), O_CLOEXEC) == 0, "a pipe");
    read_end = ends[0];
    write_end = ends[1];
  }
  int read_end = -1, write_end = -1;
};

[[noreturn]] void RunChild(const std::string& program, const std::vector<std::string>& arguments,
                           const std::map<std::string, std::string>& environment,
                           const Pipe& out, const Pipe& err) {
  setpgid(0, 0);  // so that a time-out ends its children too
  dup2(open("/dev/null", O_RDONLY), STDIN_FILENO);
  dup2(out.write_end, STDOUT_FILENO);
  dup2(err.write_end, STDERR_FILENO);
  for (const auto& [name, value] : environment) {
    if (value.empty()) {
      unsetenv(name.c_str());
    } else {
      setenv(name.c_str(), value.c_str(), 1);
    }
  }
  std::vector<char*> argv = {const_cast<char*>(program.c_str())};
  for (const std::string& argument : arguments) argv.push_back(const_cast<char*>(argument.c_str()));
  argv.push_back(nullptr);
  execv(program.c_str(), argv.data());
  _exit(127);
}

// Appends what is readable. False at the end of the stream.
bool Drain(int fd, std::string& text) {
  std::array<char, 4096> buffer{};
  const ssize_t got = read(fd, buffer.data(), buffer.size());
  if (got > 0) text.append(buffer.data(), static_cast<size_t>(got));
  return got > 0;
}

}  // namespace

std::string ProcessRun::LastLine() const {
  const std::string text(absl::StripSuffix(out, "\n"));
  const size_t newline = text.rfind('\n');
  return newline == std::string::npos ? text : text.substr(newline + 1);
}

ProcessRun RunProcess(const std::string& program, const std::vector<std::string>& arguments,
                      const std::map<std::string, std::string>& environment,
                      absl::Duration timeout) {
  Pipe out, err;
  const pid_t pid = fork();
  COHORT_CHECK(pid >= 0, "a process");
  if (pid == 0) RunChild(program, arguments, environment, out, err);
  close(out.write_end);
  close(err.write_end);
  ProcessRun run;
  const auto deadline = std::chrono::steady_clock::now() + absl::ToChronoMilliseconds(timeout);
  bool out_open = true, err_open = true, killed = false;
  while (out_open || err_open) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(
        deadline - std::chrono::steady_clock::now());
    if (left.count() <= 0 && !killed) {
      kill(-pid, SIGKILL);
      killed = true;
    }
    std::array<pollfd, 2> polled = {{{out_open ? out.read_end : -1, POLLIN, 0},
                                     {err_open ? err.read_end : -1, POLLIN, 0}}};
    poll(polled.data(), polled.size(), killed ? 1000 : static_cast<int>(left.count()) + 1);
    if (polled[0].revents != 0) out_open = Drain(out.read_end, run.out);
    if (polled[1].revents != 0) err_open = Drain(err.read_end, run.err);
  }
  close(out.read_end);
  close(err.read_end);
  int state = 0;
  waitpid(pid, &state, 0);
  if (killed) return run;
  run.exit_code = WIFEXITED(state) ? WEXITSTATUS(state) : 128 + WTERMSIG(state);
  return run;
}

std::string MakeTemporaryDirectory(const std::string& stem) {
  const char* base = std::getenv("TMPDIR");
  std::string path = std::string(base == nullptr ? "/tmp" : base) + "/" + stem + "-XXXXXX";
  COHORT_CHECK(mkdtemp(path.data()) != nullptr, "a temporary directory");
  return path;
}

}  // namespace cohort
