#include "coordinator/local/process_id.h"

#include <sys/stat.h>

#include <fstream>
#include <sstream>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "common/base/status.h"

namespace cohort {

namespace {

// Reads a file of /proc to its end, because such files report no size.
absl::StatusOr<std::string> ReadProcFile(const std::string& path) {
  std::ifstream file(path);
  std::ostringstream text;
  // A process that ends between open and read leaves a file that opens but cannot be read.
  if (!file || !(text << file.rdbuf())) return absl::NotFoundError(absl::StrCat("no ", path));
  return text.str();
}

}  // namespace

absl::StatusOr<uint64_t> StartTimeOfStat(absl::string_view stat) {
  // The second field of the line is the program's name in parentheses, which may itself contain
  // spaces and parentheses. So the last ')' ends it.
  const size_t name_end = stat.rfind(')');
  constexpr size_t kState = 3, kStartTime = 22;  // field numbers of proc(5), counted from 1
  const std::vector<absl::string_view> fields = absl::StrSplit(
      absl::StripAsciiWhitespace(
          stat.substr(name_end == absl::string_view::npos ? stat.size() : name_end + 1)),
      ' ');
  uint64_t start_time = 0;
  if (fields.size() <= kStartTime - kState ||
      !absl::SimpleAtoi(fields[kStartTime - kState], &start_time)) {
    return absl::InvalidArgumentError(absl::StrCat("not a line of /proc/PID/stat: ", stat));
  }
  // Z is a zombie, which waits only for its parent; X is dead.
  if (fields[0] == "Z" || fields[0] == "X") return absl::NotFoundError("the process has ended");
  return start_time;
}

absl::StatusOr<ProcessId> IdentifyProcess(pid_t pid) {
  ProcessId id;
  id.pid = pid;
  ASSIGN_OR_RETURN(const std::string stat, ReadProcFile(absl::StrCat("/proc/", pid, "/stat")));
  ASSIGN_OR_RETURN(id.start_time, StartTimeOfStat(stat));
  ASSIGN_OR_RETURN(const std::string boot, ReadProcFile("/proc/sys/kernel/random/boot_id"));
  // Start times count from the boot, so only together with the boot id they are unique.
  id.boot = std::string(absl::StripAsciiWhitespace(boot));
  return id;
}

bool RunsProgram(pid_t pid, const std::string& program) {
  // The link /proc/PID/exe leads to the file that runs, even if its path has a newer file now.
  struct stat running {
  }, file{};
  return stat(absl::StrCat("/proc/", pid, "/exe").c_str(), &running) == 0 &&
         stat(program.c_str(), &file) == 0 && running.st_dev == file.st_dev &&
         running.st_ino == file.st_ino;
}

}  // namespace cohort
