#include "worker/gang/flight_file.h"

#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/base/temporary_file.h"
#include "common/wire/message_json.h"

namespace cohort {

namespace {

constexpr char kEnding[] = ".flight.json";

// Removes this task's oldest flight files beyond kFlightFilesMax. File names sort by time. A file
// that cannot be removed stays.
void RemoveOldest(FileSystem& files, const std::string& directory, absl::string_view beginning) {
  const auto names = files.List(directory);
  if (!names.ok()) return;
  std::vector<std::string> own;
  for (const std::string& name : *names) {
    // The ending may be followed by more text: temporary files of an unfinished write count, too.
    const bool written = absl::StrContains(name, kEnding);
    if (written && absl::StartsWith(name, beginning)) own.push_back(name);
  }
  // Names in `own` are sorted by time, so the oldest files are removed.
  for (size_t i = 0; i + kFlightFilesMax < own.size(); ++i) {
    files.Remove(JoinPath(directory, own[i])).IgnoreError();
  }
}

}  // namespace

absl::StatusOr<std::string> WriteFlightFile(FileSystem& files, const std::string& directory,
                                            const proto::TaskRef& task,
                                            const proto::GroupFlight& flight, absl::Time now) {
  ASSIGN_OR_RETURN(const std::string text, MessageToJson(flight));
  RETURN_IF_ERROR(files.MakeDirectories(directory));
  const std::string beginning = absl::StrCat("cohort-", task.role(), "-", task.index(), "-");
  const std::string time = absl::FormatTime("%Y%m%dT%H%M%E6SZ", now, absl::UTCTimeZone());
  const std::string path = JoinPath(directory, absl::StrCat(beginning, time, kEnding));
  // The flight file is written atomically, so a reader never sees half a record.
  RETURN_IF_ERROR(WriteFileAtomically(files, path, absl::StrCat(text, "\n")));
  RemoveOldest(files, directory, beginning);
  return path;
}

}  // namespace cohort
