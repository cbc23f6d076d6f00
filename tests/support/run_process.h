#pragma once

// Runs real programs.

#include <sys/types.h>

#include <chrono>
#include <map>
#include <string>
#include <vector>

#include "absl/time/time.h"

namespace cohort {

struct ProcessRun {
  int exit_code = -1;  // -1: killed after the time-out; 128 + n: died of signal n
  std::string out, err;
  // The last line of `out`, without its newline.
  std::string LastLine() const;
};

// A program that runs beside the test. stdin is empty. Thread-compatible.
class RunningProcess {
 public:
  // Environment entries are added to this process's; an empty value unsets.
  RunningProcess(const std::string& program, const std::vector<std::string>& arguments,
                 const std::map<std::string, std::string>& environment);
  ~RunningProcess();  // kills it, with its children, when it has not ended
  RunningProcess(const RunningProcess&) = delete;
  RunningProcess& operator=(const RunningProcess&) = delete;

  pid_t pid() const { return pid_; }
  void Signal(int signal) const;
  // Until the text has come so many times. False when the process ended first, or the time did.
  bool ReadErrUntil(const std::string& text, absl::Duration timeout, int times = 1);
  const std::string& err() const { return run_.err; }  // so far
  // To its end; once. Kills it, with its children, after the time-out.
  ProcessRun Wait(absl::Duration timeout);

 private:
  // False when there is nothing left to read, or no time.
  bool ReadSome(std::chrono::steady_clock::time_point deadline);

  pid_t pid_ = 0;
  int out_end_ = -1, err_end_ = -1;
  bool ended_ = false;
  ProcessRun run_;
};

// A RunningProcess from its start to its end.
ProcessRun RunProcess(const std::string& program, const std::vector<std::string>& arguments,
                      const std::map<std::string, std::string>& environment,
                      absl::Duration timeout);

}  // namespace cohort
