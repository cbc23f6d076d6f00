#include "common/base/posix_file_system.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/base/path_check.h"
#include "common/base/unique_fd.h"

namespace cohort {

namespace {

// A new file that is written through one file descriptor.
class PosixWritableFile final : public WritableFile {
 public:
  PosixWritableFile(int fd, std::string path) : fd_(fd), path_(std::move(path)) {}
  ~PosixWritableFile() override {
    if (fd_ >= 0) close(fd_);
  }

  absl::Status Append(absl::string_view bytes) override {
    while (!bytes.empty()) {
      // write() may write only a part of the bytes, and a signal may interrupt it (EINTR).
      const ssize_t written = write(fd_, bytes.data(), bytes.size());
      if (written < 0 && errno == EINTR) continue;
      if (written < 0) return ErrnoStatus(errno, absl::StrCat("cannot write ", path_));
      bytes.remove_prefix(static_cast<size_t>(written));
    }
    return absl::OkStatus();
  }

  absl::Status Sync() override {
    if (fsync(fd_) != 0) return ErrnoStatus(errno, absl::StrCat("cannot sync ", path_));
    return absl::OkStatus();
  }

  absl::Status Close() override {
    // The file descriptor counts as closed even if close() fails, and a second close() could close
    // another file.
    if (close(std::exchange(fd_, -1)) != 0) {
      return ErrnoStatus(errno, absl::StrCat("cannot close ", path_));
    }
    return absl::OkStatus();
  }

 private:
  int fd_;
  const std::string path_;
};

class PosixReadableFile final : public ReadableFile {
 public:
  PosixReadableFile(int fd, const struct stat& info, std::string name)
      : fd_(fd),
        size_(static_cast<uint64_t>(info.st_size)),
        modified_ns_(int64_t{info.st_mtim.tv_sec} * 1'000'000'000 + info.st_mtim.tv_nsec),
        name_(std::move(name)) {}
  ~PosixReadableFile() override { close(fd_); }

  uint64_t size() const override { return size_; }
  int64_t modified_ns() const override { return modified_ns_; }

  absl::Status Read(uint64_t offset, absl::Span<char> out) const override {
    if (offset > size_ && !out.empty()) return BeyondTheEnd(offset, out.size());
    size_t done = 0;
    while (done < out.size()) {
      const ssize_t got =
          pread(fd_, out.data() + done, out.size() - done, static_cast<off_t>(offset + done));
      if (got < 0 && errno == EINTR) continue;
      if (got < 0) return ErrnoStatus(errno, absl::StrCat("cannot read ", name_));
      // pread() returned 0 bytes: the file ends before the last byte that the caller wants.
      if (got == 0) return BeyondTheEnd(offset, out.size());
      done += static_cast<size_t>(got);
    }
    return absl::OkStatus();
  }

 private:
  absl::Status BeyondTheEnd(uint64_t offset, size_t wanted) const {
    return absl::OutOfRangeError(
        absl::StrCat(name_, " ends at byte ", size_, "; wanted ", wanted, " bytes at ", offset));
  }

  const int fd_;
  const uint64_t size_;
  const int64_t modified_ns_;
  const std::string name_;  // the path as error messages name it (NameOf)
};

// Returns the path as error messages name it: "<path> in <working directory>" for a relative path,
// whose meaning depends on where the process was started, and the path alone if it is absolute.
std::string NameOf(const std::string& path) {
  if (absl::StartsWith(path, "/")) return path;
  const std::string directory = WorkingDirectory();
  return directory.empty() ? path : absl::StrCat(path, " in ", directory);
}

// Makes the entries of a directory durable: fsync() of a file does not cover the file's name.
absl::Status SyncDirectory(const std::string& path) {
  const int fd = open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return ErrnoStatus(errno, absl::StrCat("cannot open directory ", path));
  const int result = fsync(fd);
  // close() may change errno, so the error of fsync() is saved before close().
  const int error_number = errno;
  close(fd);
  if (result != 0) return ErrnoStatus(error_number, absl::StrCat("cannot sync directory ", path));
  return absl::OkStatus();
}

// Returns whether `fd` is still the file at `path`: another process may have removed the file, as
// the end of a lock does, between this process's open() and flock().
bool IsAt(int fd, const std::string& path) {
  struct stat opened;
  struct stat named;
  return fstat(fd, &opened) == 0 && stat(path.c_str(), &named) == 0 &&
         opened.st_ino == named.st_ino && opened.st_dev == named.st_dev;
}

class PosixFileLock final : public FileLock {
 public:
  PosixFileLock(UniqueFd fd, std::string path) : fd_(std::move(fd)), path_(std::move(path)) {}
  // The file is removed while it is locked, so nobody else's file is.
  ~PosixFileLock() override { unlink(path_.c_str()); }

 private:
  const UniqueFd fd_;
  const std::string path_;
};

}  // namespace

std::string WorkingDirectory() {
  std::error_code error;
  const std::string directory = std::filesystem::current_path(error).string();
  return error ? "" : directory;
}

absl::StatusOr<std::unique_ptr<WritableFile>> PosixFileSystem::Create(const std::string& path) {
  // With O_EXCL and O_NOFOLLOW, open() creates a new file or fails: it never opens a file or a
  // symbolic link that another process has made.
  const int fd = open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0644);
  if (fd < 0) return ErrnoStatus(errno, absl::StrCat("cannot create ", path));
  return std::make_unique<PosixWritableFile>(fd, path);
}

absl::StatusOr<std::unique_ptr<ReadableFile>> PosixFileSystem::Open(const std::string& path) {
  // Without O_NONBLOCK, open() of a FIFO would wait for a writer for ever. A FIFO is refused
  // further down, as every file that is not regular.
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) {
    const int error_number = errno;
    return ErrnoStatus(error_number, absl::StrCat("cannot open ", NameOf(path)));
  }
  struct stat info;
  if (fstat(fd, &info) != 0) {
    // close() may change errno, so the error of fstat() is saved before close().
    const int error_number = errno;
    close(fd);
    return ErrnoStatus(error_number, absl::StrCat("cannot read the size of ", NameOf(path)));
  }
  // open() also succeeds for directories and devices, which cannot be read as files of a known
  // size.
  if (!S_ISREG(info.st_mode)) {
    close(fd);
    return absl::FailedPreconditionError(absl::StrCat(NameOf(path), " is not a regular file"));
  }
  return std::make_unique<PosixReadableFile>(fd, info, NameOf(path));
}

absl::StatusOr<std::vector<std::string>> PosixFileSystem::List(const std::string& directory) {
  DIR* const stream = opendir(directory.c_str());
  if (stream == nullptr) return ErrnoStatus(errno, absl::StrCat("cannot list ", directory));
  std::vector<std::string> names;
  while (const dirent* entry = readdir(stream)) {
    std::string name = entry->d_name;
    if (name != "." && name != "..") names.push_back(std::move(name));
  }
  closedir(stream);
  std::sort(names.begin(), names.end());
  return names;
}

absl::Status PosixFileSystem::Rename(const std::string& from, const std::string& to) {
  struct stat info;
  // The type of `to` is checked because rename() by root would replace even a device such as
  // /dev/null.
  if (lstat(to.c_str(), &info) == 0 && !S_ISREG(info.st_mode) && !S_ISLNK(info.st_mode)) {
    return absl::FailedPreconditionError(absl::StrCat(to, " is not a regular file"));
  }
  if (rename(from.c_str(), to.c_str()) != 0) {
    return ErrnoStatus(errno, absl::StrCat("cannot rename ", from, " to ", to));
  }
  return SyncDirectory(DirectoryOf(to));
}

absl::Status PosixFileSystem::Remove(const std::string& path) {
  if (remove(path.c_str()) != 0 && errno != ENOENT) {
    return ErrnoStatus(errno, absl::StrCat("cannot remove ", path));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::string> PosixFileSystem::Followed(const std::string& path) const {
  return FollowLinks(path);
}

absl::Status PosixFileSystem::MakeDirectories(const std::string& path) {
  // Creates each prefix of the path that ends before a slash, and then the whole path.
  for (size_t end = 1; end <= path.size(); ++end) {
    if (end != path.size() && path[end] != '/') continue;
    const std::string prefix = path.substr(0, end);
    if (mkdir(prefix.c_str(), 0755) == 0) {
      RETURN_IF_ERROR(SyncDirectory(DirectoryOf(prefix)));
      // EEXIST is not an error here: another process may have created the directory in the
      // meantime, or the directory existed before.
    } else if (errno != EEXIST) {
      return ErrnoStatus(errno, absl::StrCat("cannot make directory ", prefix));
    }
  }
  // mkdir() also fails with EEXIST if the path is a file, so a path that is not a directory is
  // refused here.
  struct stat info;
  if (stat(path.c_str(), &info) != 0 || !S_ISDIR(info.st_mode)) {
    return absl::FailedPreconditionError(absl::StrCat(path, " is not a directory"));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<FileLock>> PosixFileSystem::Lock(const std::string& path,
                                                                const std::string& holder) {
  constexpr int kTriesMax = 100;
  for (int tries = 0; tries < kTriesMax; ++tries) {
    // The lock lasts until no process has this descriptor. With O_CLOEXEC, children do not keep it.
    UniqueFd fd(open(path.c_str(), O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0644));
    if (!fd.ok()) return ErrnoStatus(errno, absl::StrCat("cannot open ", path));
    if (flock(fd.get(), LOCK_EX | LOCK_NB) != 0) {
      if (errno == EINTR) continue;
      if (errno == ENOLCK || errno == ENOTSUP || errno == ENOSYS || errno == EINVAL) {
        return absl::UnimplementedError(absl::StrCat(path, " cannot be locked"));
      }
      if (errno != EWOULDBLOCK) return ErrnoStatus(errno, absl::StrCat("cannot lock ", path));
      const std::string held_by = ReadFile(*this, path).value_or("");
      return absl::FailedPreconditionError(
          absl::StrCat(path, " is locked by ", held_by.empty() ? "another process" : held_by));
    }
    if (!IsAt(fd.get(), path)) continue;
    if (ftruncate(fd.get(), 0) != 0 ||
        pwrite(fd.get(), holder.data(), holder.size(), 0) != static_cast<ssize_t>(holder.size())) {
      return ErrnoStatus(errno, absl::StrCat("cannot write ", path));
    }
    return std::make_unique<PosixFileLock>(std::move(fd), path);
  }
  return absl::UnavailableError(absl::StrCat("cannot lock ", path, ": it is removed all the time"));
}

}  // namespace cohort
