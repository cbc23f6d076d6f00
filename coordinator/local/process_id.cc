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

// Reads a file of /proc to its end, because the system reports no size for it. Errors: NOT_FOUND.
absl::StatusOr<std::string> ReadProcFile(const std::string& path) {
  std::ifstream file(path);
  std::ostringstream text;
  // Reading also fails if the process ends after its file was opened.
  if (!file || !(text << file.rdbuf())) return absl::NotFoundError(absl::StrCat("no ", path));
  return text.str();
}

}  // namespace

absl::StatusOr<uint64_t> StartTimeOfStat(absl::string_view stat) {
  // The second field of /proc/PID/stat is the program's name in parentheses. The name may itself
  // contain spaces and parentheses, so the field ends at the last ')' of the line.
  const size_t name_end = stat.rfind(')');
  constexpr size_t kState = 3, kStartTime = 22;  // numbers of fields in proc(5), which count from 1
  const std::vector<absl::string_view> fields = absl::StrSplit(
      absl::StripAsciiWhitespace(
          stat.substr(name_end == absl::string_view::npos ? stat.size() : name_end + 1)),
      ' ');
  uint64_t start_time = 0;
  if (fields.size() <= kStartTime - kState ||
      !absl::SimpleAtoi(fields[kStartTime - kState], &start_time)) {
    return absl::InvalidArgumentError(absl::StrCat("not a line of /proc/PID/stat: ", stat));
  }
  // State Z (zombie) is a process that has ended and that its parent has not reaped yet. State X is
  // a process that is gone.
  if (fields[0] == "Z" || fields[0] == "X") return absl::NotFoundError("the process has ended");
  return start_time;
}

absl::StatusOr<ProcessId> IdentifyProcess(pid_t pid) {
  ProcessId id;
  id.pid = pid;
  ASSIGN_OR_RETURN(const std::string stat, ReadProcFile(absl::StrCat("/proc/", pid, "/stat")));
  ASSIGN_OR_RETURN(id.start_time, StartTimeOfStat(stat));
  ASSIGN_OR_RETURN(const std::string boot, ReadProcFile("/proc/sys/kernel/random/boot_id"));
  // The start time counts from the boot of the machine, so the boot id is a part of the identity.
  id.boot = std::string(absl::StripAsciiWhitespace(boot));
  return id;
}

bool RunsProgram(pid_t pid, const std::string& program) {
  // The link /proc/PID/exe leads to the file that the process runs, even if another file has been
  // put at the path of that file since.
  struct stat running {
  }, file{};
  return stat(absl::StrCat("/proc/", pid, "/exe").c_str(), &running) == 0 &&
         stat(program.c_str(), &file) == 0 && running.st_dev == file.st_dev &&
         running.st_ino == file.st_ino;
}

}  // namespace cohort
