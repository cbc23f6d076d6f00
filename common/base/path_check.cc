#include "common/base/path_check.h"

#include <sys/stat.h>

#include <cerrno>
#include <filesystem>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/base/file_system.h"

namespace cohort {

namespace {

// Returns the path without slashes at its end; the path "/" is returned unchanged.
std::string WithoutSlashes(std::string path) {
  while (path.size() > 1 && path.back() == '/') path.pop_back();
  return path;
}

// Returns the absolute form of the path. Symbolic links are resolved in the part of the path that
// exists.
std::string Absolute(const std::string& path) {
  std::error_code error;
  const std::filesystem::path absolute = std::filesystem::absolute(path, error);
  if (error) return path;
  const std::filesystem::path canonical = std::filesystem::weakly_canonical(absolute, error);
  // If a directory on the path may not be searched, all symbolic links of the path stay unresolved.
  return WithoutSlashes((error ? absolute.lexically_normal() : canonical).string());
}

}  // namespace

absl::Status CheckExpanded(absl::string_view path) {
  if (path != "~" && !absl::StartsWith(path, "~/")) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "'", path, "' begins with ~, which only a shell expands; write the path in full"));
}

absl::Status CheckDirectoryPath(const std::string& path) {
  std::string part = WithoutSlashes(path);
  struct stat info;
  // The longest existing prefix of the path decides: if this prefix is a directory, the missing
  // directories below it can be created.
  while (stat(part.c_str(), &info) != 0) {
    // After any other error, nothing is known about `part`, so the path is accepted.
    if (errno != ENOENT && errno != ENOTDIR) return absl::OkStatus();
    std::string parent = WithoutSlashes(DirectoryOf(part));
    if (parent == part) return absl::OkStatus();
    part = std::move(parent);
  }
  if (S_ISDIR(info.st_mode)) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat(part, " is not a directory"));
}

absl::Status CheckFilePath(const std::string& path) {
  struct stat info;
  if (stat(path.c_str(), &info) == 0) {
    if (S_ISREG(info.st_mode)) return absl::OkStatus();
    return absl::FailedPreconditionError(absl::StrCat(path, " is not a regular file"));
  }
  if (absl::EndsWith(path, "/")) {
    return absl::FailedPreconditionError(
        absl::StrCat(path, " is not a regular file: it ends in a slash, as only a directory does"));
  }
  return CheckDirectoryPath(DirectoryOf(path));
}

FilePlace::FilePlace(const std::string& path) : path_(Absolute(path)) {
  struct stat info;
  if (stat(path.c_str(), &info) != 0) return;
  exists_ = true;
  device_ = info.st_dev;
  inode_ = info.st_ino;
}

bool FilePlace::IsSame(const FilePlace& other) const {
  if (exists_ && other.exists_) return device_ == other.device_ && inode_ == other.inode_;
  return path_ == other.path_;
}

bool FilePlace::IsBelow(const FilePlace& directory) const {
  return absl::StartsWith(path_, directory.path_ == "/" ? "/" : absl::StrCat(directory.path_, "/"));
}

}  // namespace cohort
