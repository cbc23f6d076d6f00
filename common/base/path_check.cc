#include "common/base/path_check.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/base/file_system.h"
#include "common/base/status.h"

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

// The number of links that lead from one to the next before FollowLinks gives up, as in Linux.
constexpr int kLinksMax = 40;

// Returns "'path'", or "'path', to which 'named' leads," if the user has named another path.
std::string Led(const std::string& path, const std::string& named) {
  return path == named ? absl::StrCat("'", path, "'")
                       : absl::StrCat("'", path, "', to which '", named, "' leads,");
}

// Refuses a path in a file system of the kernel, in which root could replace a device such as
// /dev/stdout by a regular file. Memory file systems for everybody's files may be mounted there.
absl::Status CheckIsOnDisk(const std::string& path, const std::string& named) {
  const std::string place = absl::StrCat(Absolute(DirectoryOf(path)), "/");
  const bool is_kernels = absl::StartsWith(place, "/proc/") || absl::StartsWith(place, "/dev/");
  if (!is_kernels || absl::StartsWith(place, "/dev/shm/")) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat(Led(path, named), " is not a regular file: /dev and /proc have none"));
}

// Refuses to follow a link that another user may have made to have a file of this user replaced. As
// the kernel does (fs.protected_symlinks), where only the owner of a file may remove the file.
absl::Status CheckMayFollow(const std::string& link, const struct stat& info,
                            const std::string& named) {
  struct stat directory;
  if (stat(DirectoryOf(link).c_str(), &directory) != 0) return absl::OkStatus();
  const bool is_shared = (directory.st_mode & S_ISVTX) != 0 && (directory.st_mode & S_IWOTH) != 0;
  if (!is_shared || info.st_uid == geteuid() || info.st_uid == directory.st_uid) {
    return absl::OkStatus();
  }
  return absl::FailedPreconditionError(
      absl::StrCat(Led(link, named),
                   " is a symbolic link of another user, in a directory in which "
                   "everybody may make links"));
}

}  // namespace

absl::StatusOr<std::string> FollowLinks(const std::string& path) {
  std::string place = path;
  for (int followed = 0; followed <= kLinksMax; ++followed) {
    RETURN_IF_ERROR(CheckIsOnDisk(place, path));
    struct stat info;
    // A path that cannot be judged here is one for the system's error when it is written to.
    if (lstat(place.c_str(), &info) != 0 || !S_ISLNK(info.st_mode)) return place;
    RETURN_IF_ERROR(CheckMayFollow(place, info, path));
    std::error_code error;
    const std::string target = std::filesystem::read_symlink(place, error).string();
    if (error) return place;
    // A relative target begins at the directory of its link.
    place = absl::StartsWith(target, "/") ? target : JoinPath(DirectoryOf(place), target);
  }
  return absl::FailedPreconditionError(
      absl::StrCat("'", path, "' is a symbolic link that leads to ", kLinksMax, " others"));
}

absl::Status CheckLocalPath(absl::string_view path) {
  if (path == "~" || absl::StartsWith(path, "~/")) {
    return absl::InvalidArgumentError(absl::StrCat(
        "'", path, "' begins with ~, which only a shell expands; write the path in full"));
  }
  const size_t colon = path.find("://");
  const absl::string_view scheme = path.substr(0, colon);
  const bool is_url = colon != absl::string_view::npos && !scheme.empty() &&
                      std::all_of(scheme.begin(), scheme.end(), absl::ascii_isalnum);
  if (!is_url) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("'", path, "' is a URL, and only files of this machine are read and written; ",
                   "mount what it names and write the path of the mount"));
}

absl::Status CheckDirectoryPath(const std::string& path) {
  const std::string place = absl::StrCat(Absolute(path), "/");
  if (absl::StartsWith(place, "/proc/") || absl::StartsWith(place, "/sys/")) {
    return absl::FailedPreconditionError(
        absl::StrCat(path, " cannot be written to: /proc and /sys take no files"));
  }
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
  if (!S_ISDIR(info.st_mode)) {
    return absl::FailedPreconditionError(absl::StrCat(part, " is not a directory"));
  }
  if (faccessat(AT_FDCWD, part.c_str(), W_OK | X_OK, AT_EACCESS) == 0) return absl::OkStatus();
  return ErrnoStatus(errno, absl::StrCat(part, " cannot be written to"));
}

absl::Status CheckFilePath(const std::string& path) {
  ASSIGN_OR_RETURN(const std::string place, FollowLinks(path));
  const std::string shown = place == path ? path : Led(place, path);
  struct stat info;
  if (stat(place.c_str(), &info) == 0) {
    if (S_ISREG(info.st_mode)) return absl::OkStatus();
    return absl::FailedPreconditionError(absl::StrCat(shown, " is not a regular file"));
  }
  if (absl::EndsWith(place, "/")) {
    return absl::FailedPreconditionError(absl::StrCat(
        shown, " is not a regular file: it ends in a slash, as only a directory does"));
  }
  return CheckDirectoryPath(DirectoryOf(place));
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
