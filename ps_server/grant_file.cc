#include "ps_server/grant_file.h"

#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "common/base/status.h"

namespace cohort {

// One line: epoch, coordinator incarnation, and the job's name to the end of the file.
absl::StatusOr<EpochGrant> ReadGrant(FileSystem& files, const std::string& path) {
  const absl::StatusOr<std::string> text = ReadFile(files, path);
  if (absl::IsNotFound(text.status())) return EpochGrant();
  RETURN_IF_ERROR(text.status());
  const std::vector<std::string> words = absl::StrSplit(*text, absl::MaxSplits(' ', 2));
  EpochGrant grant;
  if (words.size() != 3 || !absl::SimpleAtoi(words[0], &grant.epoch) ||
      !absl::SimpleAtoi(words[1], &grant.coordinator_incarnation)) {
    return absl::DataLossError(absl::StrCat(
        path, ": not a grant file: if no job runs on this server, remove it and start again"));
  }
  grant.job = words[2];
  return grant;
}

absl::Status WriteGrant(FileSystem& files, const std::string& path, const EpochGrant& grant) {
  return WriteFileAtomically(
      files, path, absl::StrCat(grant.epoch, " ", grant.coordinator_incarnation, " ", grant.job));
}

}  // namespace cohort
