#include "coordinator/local/last_words.h"

#include <algorithm>
#include <memory>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"

namespace cohort {

namespace {
// The end of the log that is read. A longer last line is shown from there on.
constexpr uint64_t kTailBytesMax = 4096;
// The length of the line that is shown. A daemon's error begins with what is wrong, so the
// beginning of the line is kept.
constexpr size_t kLineBytesMax = 400;
}  // namespace

uint64_t LogSize(FileSystem& files, const std::string& log) {
  const absl::StatusOr<std::unique_ptr<ReadableFile>> file = files.Open(log);
  return file.ok() ? (*file)->size() : 0;
}

std::string LastWords(FileSystem& files, const std::string& log, uint64_t skip) {
  const absl::StatusOr<std::unique_ptr<ReadableFile>> file = files.Open(log);
  // Somebody may have made the log shorter since `skip` was measured.
  if (!file.ok() || (*file)->size() <= skip) return "";
  const uint64_t size = std::min((*file)->size() - skip, kTailBytesMax);
  std::string tail(size, '\0');
  if (!(*file)->Read((*file)->size() - size, absl::MakeSpan(tail)).ok()) return "";
  absl::string_view line = absl::StripAsciiWhitespace(tail);
  // rfind gives npos, whose successor is 0, if the tail is a single line.
  line.remove_prefix(line.rfind('\n') + 1);
  const bool cut = line.size() > kLineBytesMax;
  return absl::StrCat(absl::Utf8SafeCHexEscape(line.substr(0, kLineBytesMax)), cut ? "..." : "");
}

}  // namespace cohort
