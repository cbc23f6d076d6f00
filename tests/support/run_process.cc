#include "tests/support/run_process.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <utility>

#include "absl/strings/str_cat.h"
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

std::vector<std::string> Environment(const std::map<std::string, std::string>& changes) {
  std::vector<std::string> environment;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string name = std::string(*entry).substr(0, std::string(*entry).find('='));
    if (changes.count(name) == 0) environment.emplace_back(*entry);
  }
  for (const auto& [name, value] : changes) {
    if (!value.empty()) environment.push_back(absl::StrCat(name, "=", value));
  }
  return environment;
}

std::vector<char*> Pointers(std::vector<std::string>& strings) {
  std::vector<char*> pointers;
  for (std::string& text : strings) pointers.push_back(text.data());
  pointers.push_back(nullptr);
  return pointers;
}

// Only async-signal-safe calls: the parent has threads, which may hold the allocator's locks.
[[noreturn]] void RunChild(char* const* argv, char* const* envp, const Pipe& out, const Pipe& err) {
  setpgid(0, 0);  // so that a time-out ends its children too
  dup2(open("/dev/null", O_RDONLY), STDIN_FILENO);
  dup2(out.write_end, STDOUT_FILENO);
  dup2(err.write_end, STDERR_FILENO);
  execve(argv[0], argv, envp);
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

RunningProcess::RunningProcess(const std::string& program,
                               const std::vector<std::string>& arguments,
                               const std::map<std::string, std::string>& environment) {
  std::vector<std::string> words = {program};
  words.insert(words.end(), arguments.begin(), arguments.end());
  const std::vector<char*> argv = Pointers(words);
  std::vector<std::string> variables = Environment(environment);
  const std::vector<char*> envp = Pointers(variables);
  const Pipe out, err;
  pid_ = fork();
  COHORT_CHECK(pid_ >= 0, "a process");
  if (pid_ == 0) RunChild(argv.data(), envp.data(), out, err);
  close(out.write_end);
  close(err.write_end);
  out_end_ = out.read_end;
  err_end_ = err.read_end;
}

RunningProcess::~RunningProcess() {
  if (!ended_) {
    kill(-pid_, SIGKILL);
    Wait(absl::Minutes(1));
  }
}

void RunningProcess::Signal(int signal) const { kill(pid_, signal); }

bool RunningProcess::ReadSome(std::chrono::steady_clock::time_point deadline) {
  const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(
      deadline - std::chrono::steady_clock::now());
  if (left.count() <= 0 || (out_end_ < 0 && err_end_ < 0)) return false;
  std::array<pollfd, 2> polled = {{{out_end_, POLLIN, 0}, {err_end_, POLLIN, 0}}};
  poll(polled.data(), polled.size(), static_cast<int>(left.count()) + 1);
  const auto drain = [](const pollfd& ready, int& end, std::string& text) {
    if (ready.revents == 0 || Drain(end, text)) return;
    close(end);
    end = -1;
  };
  drain(polled[0], out_end_, run_.out);
  drain(polled[1], err_end_, run_.err);
  return true;
}

bool RunningProcess::ReadErrUntil(const std::string& text, absl::Duration timeout, int times) {
  const auto deadline = std::chrono::steady_clock::now() + absl::ToChronoMilliseconds(timeout);
  for (size_t begin = 0; times > 0; --times) {
    size_t at = run_.err.find(text, begin);
    while (at == std::string::npos) {
      if (!ReadSome(deadline)) return false;
      at = run_.err.find(text, begin);
    }
    begin = at + text.size();
  }
  return true;
}

ProcessRun RunningProcess::Wait(absl::Duration timeout) {
  const auto deadline = std::chrono::steady_clock::now() + absl::ToChronoMilliseconds(timeout);
  while (ReadSome(deadline)) {
  }
  const bool killed = out_end_ >= 0 || err_end_ >= 0;
  if (killed) {
    kill(-pid_, SIGKILL);
    const auto soon = std::chrono::steady_clock::now() + std::chrono::seconds(10);
    while (ReadSome(soon)) {
    }
  }
  for (int* const end : {&out_end_, &err_end_}) {
    if (*end >= 0) close(std::exchange(*end, -1));
  }
  int state = 0;
  waitpid(pid_, &state, 0);
  ended_ = true;
  if (!killed) run_.exit_code = WIFEXITED(state) ? WEXITSTATUS(state) : 128 + WTERMSIG(state);
  return run_;
}

ProcessRun RunProcess(const std::string& program, const std::vector<std::string>& arguments,
                      const std::map<std::string, std::string>& environment,
                      absl::Duration timeout) {
  return RunningProcess(program, arguments, environment).Wait(timeout);
}

}  // namespace cohort
