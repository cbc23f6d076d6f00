#include "common/base/file_system.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"

namespace cohort {

absl::StatusOr<std::string> ReadFile(FileSystem& files, const std::string& path) {
  ASSIGN_OR_RETURN(std::unique_ptr<ReadableFile> file, files.Open(path));
  std::string bytes(file->size(), '\0');
  RETURN_IF_ERROR(file->Read(0, absl::MakeSpan(bytes)));
  return bytes;
}

std::string JoinPath(absl::string_view directory, absl::string_view name) {
  if (directory.empty()) return std::string(name);
  return absl::StrCat(absl::StripSuffix(directory, "/"), "/", name);
}

std::string DirectoryOf(absl::string_view path) {
  const size_t slash = path.rfind('/');
  if (slash == absl::string_view::npos) return ".";
  // The directory of a path such as "/a" is "/" and not the empty text before the slash.
  return std::string(slash == 0 ? "/" : path.substr(0, slash));
}

std::string BaseName(absl::string_view path) {
  const size_t slash = path.rfind('/');
  return std::string(slash == absl::string_view::npos ? path : path.substr(slash + 1));
}

}  // namespace cohort
