#include "tests/bench/bench.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "common/base/status.h"
#include "common/base/turns.h"

namespace cohort::bench {

absl::StatusOr<int> Options::Number(const std::string& name) const {
  int value = 0;
  if (!absl::SimpleAtoi(Text(name), &value) || value < 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("--", name, "=", Text(name), " is not a number of 0 or more"));
  }
  return value;
}

void Print(const Figure& figure) {
  nlohmann::ordered_json line = {{"bench", figure.bench},
                                 {"case", figure.name},
                                 {"value", figure.value},
                                 {"unit", figure.unit}};
  if (!figure.reference.empty()) {
    line["reference"] = figure.reference;
    line["reference_value"] = figure.reference_value;
    line["ratio"] = figure.reference_value > 0 ? figure.value / figure.reference_value : 0.0;
  }
  for (const auto& [key, value] : figure.more) line[key] = value;
  std::printf("%s\n", line.dump().c_str());
  std::fflush(stdout);
}

double Median(std::vector<double> values) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  const size_t middle = values.size() / 2;
  return values.size() % 2 == 1 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
}

std::string SizeName(size_t bytes) {
  if (bytes >= size_t{1} << 20) return absl::StrCat(bytes >> 20, "MiB");
  return absl::StrCat(bytes >> 10, "KiB");
}

absl::StatusOr<Peer> Peer::Start(const std::vector<std::string>& arguments) {
  std::vector<std::string> text = {"/proc/self/exe"};
  text.insert(text.end(), arguments.begin(), arguments.end());
  return StartProgram(text);
}

absl::StatusOr<Peer> Peer::StartProgram(const std::vector<std::string>& arguments) {
  int input[2] = {-1, -1};
  int output[2] = {-1, -1};
  if (pipe2(input, O_CLOEXEC) != 0) return ErrnoStatus(errno, "pipe");
  if (pipe2(output, O_CLOEXEC) != 0) return ErrnoStatus(errno, "pipe");
  std::vector<char*> argv;
  for (const std::string& argument : arguments) argv.push_back(const_cast<char*>(argument.data()));
  argv.push_back(nullptr);
  const pid_t pid = fork();
  if (pid < 0) return ErrnoStatus(errno, "fork");
  if (pid == 0) {
    // Only calls that are safe between fork and exec in a program with threads.
    SetTurns(Turns::kUsual);
    dup2(input[0], STDIN_FILENO);
    dup2(output[1], STDOUT_FILENO);
    execvp(argv[0], argv.data());
    _exit(127);
  }
  close(input[0]);
  close(output[1]);
  return Peer(pid, input[1], output[0]);
}

Peer::Peer(Peer&& other) noexcept
    : pid_(std::exchange(other.pid_, -1)),
      input_(std::exchange(other.input_, -1)),
      output_(std::exchange(other.output_, -1)) {}

Peer::~Peer() {
  if (pid_ < 0) return;
  close(input_);
  close(output_);
  waitpid(pid_, nullptr, 0);
}

absl::StatusOr<std::string> Peer::ReadLine() {
  std::string line;
  char c = 0;
  while (true) {
    const ssize_t count = read(output_, &c, 1);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return absl::UnavailableError("a process that the bench started has ended");
    if (c == '\n') return line;
    line.push_back(c);
  }
}

void WaitForStarter() {
  char c = 0;
  while (true) {
    const ssize_t count = read(STDIN_FILENO, &c, 1);
    if (count == 0 || (count < 0 && errno != EINTR)) return;
  }
}

}  // namespace cohort::bench
