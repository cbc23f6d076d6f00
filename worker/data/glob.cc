#include "worker/data/glob.h"

#include <fnmatch.h>

#include <algorithm>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/base/status.h"
#include "common/records/index_store.h"

namespace cohort {

namespace {

bool HasWildcard(absl::string_view text) {
  return text.find_first_of("*?[") != absl::string_view::npos;
}

}  // namespace

absl::StatusOr<std::vector<std::string>> ExpandGlob(FileSystem& files, const std::string& path) {
  if (!HasWildcard(path)) return std::vector<std::string>{path};
  const std::string directory = DirectoryOf(path);
  const std::string pattern = BaseName(path);
  if (HasWildcard(directory)) {
    return absl::InvalidArgumentError(
        absl::StrCat(path,
                     ": has a wildcard in its directory; only the last part may have one: list the "
                     "directories"));
  }
  ASSIGN_OR_RETURN(const std::vector<std::string> names, files.List(directory));
  std::vector<std::string> matching;
  for (const std::string& name : names) {
    // FNM_PERIOD: as in the shell, a wildcard does not stand for the dot of a hidden file.
    if (absl::EndsWith(name, kIndexEnding) ||
        fnmatch(pattern.c_str(), name.c_str(), FNM_PERIOD) != 0) {
      continue;
    }
    matching.push_back(JoinPath(directory, name));
  }
  if (matching.empty()) return absl::NotFoundError(absl::StrCat(path, ": matches no file"));
  std::sort(matching.begin(), matching.end());
  return matching;
}

}  // namespace cohort
