#include "ps_server/grant_file.h"

#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "common/base/status.h"
#include "common/base/temporary_file.h"

namespace cohort {

// The grant file has one line: epoch, coordinator incarnation, hash of the job's settings, lease in
// milliseconds, and last the job's name, which extends to the end of the file.
absl::StatusOr<EpochGrant> ReadGrant(FileSystem& files, const std::string& path) {
  // An interrupted WriteGrant may have left a temporary file.
  RemoveTemporaries(files, path);
  const absl::StatusOr<std::string> text = ReadFile(files, path);
  if (absl::IsNotFound(text.status())) return EpochGrant();
  RETURN_IF_ERROR(text.status());
  // The text is split at the first four spaces only, because the job's name may have spaces.
  const std::vector<std::string> words = absl::StrSplit(*text, absl::MaxSplits(' ', 4));
  EpochGrant grant;
  uint64_t settings = 0;
  int64_t lease_ms = 0;
  if (words.size() != 5 || !absl::SimpleAtoi(words[0], &grant.epoch) ||
      !absl::SimpleAtoi(words[1], &grant.coordinator_incarnation) ||
      !absl::SimpleAtoi(words[2], &settings) || !absl::SimpleAtoi(words[3], &lease_ms) ||
      lease_ms <= 0) {
    return absl::DataLossError(absl::StrCat(
        path, ": not a grant file: if no job runs on this server, remove it and start again"));
  }
  grant.job.set_name(words[4]);
  grant.job.set_settings(settings);
  grant.lease = absl::Milliseconds(lease_ms);
  return grant;
}

absl::Status WriteGrant(FileSystem& files, const std::string& path, const EpochGrant& grant) {
  // The grant file is replaced atomically, so after a crash it has either the old grant or the new
  // one.
  return WriteFileAtomically(
      files, path,
      absl::StrCat(grant.epoch, " ", grant.coordinator_incarnation, " ", grant.job.settings(), " ",
                   absl::ToInt64Milliseconds(grant.lease), " ", grant.job.name()));
}

}  // namespace cohort
