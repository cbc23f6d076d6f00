#include "coordinator/local/find_daemon.h"

#include <unistd.h>

#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "common/base/file_system.h"
#include "common/cluster/environment.h"

namespace cohort {

namespace {

bool IsProgram(const std::string& path) { return access(path.c_str(), X_OK) == 0; }

}  // namespace

absl::StatusOr<std::string> FindDaemon(absl::string_view name, const std::string& directory) {
  const std::string installed = absl::StrCat("cohort-", name);
  const std::string beside = directory.empty() ? DirectoryOf(ExecutablePath()) : directory;
  // "cohort-ps" is looked for before "ps", because next to an installed program, `ps` may be
  // another one.
  for (const std::string& file : {installed, std::string(name)}) {
    std::string path = JoinPath(beside, file);
    if (IsProgram(path)) return path;
  }
  if (!directory.empty()) {
    return absl::NotFoundError(absl::StrCat("no program ", installed, " or ", name, " in ",
                                            directory, ": build it, or name its directory"));
  }
  const std::string search = ProcessEnvironment()("PATH").value_or("");
  for (const absl::string_view each : absl::StrSplit(search, ':', absl::SkipEmpty())) {
    std::string path = JoinPath(each, installed);
    if (IsProgram(path)) return path;
  }
  return absl::NotFoundError(absl::StrCat("no program ", installed, " or ", name, " in ", beside,
                                          ", nor ", installed,
                                          " in PATH: install Cohort, or name the directory of its "
                                          "daemons"));
}

}  // namespace cohort
