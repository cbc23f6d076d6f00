#pragma once

// ZIP archives such as .keras and .npz files. An archive is a list of members with names. Each
// member is stored unchanged or deflated, with a checksum. ZIP64 is supported. libzip reads the
// archives. The name of a member is never used as a path: nothing is written to disk.

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "common/base/file_system.h"
#include "common/base/mutex.h"

struct zip;

namespace cohort {

inline constexpr size_t kZipMembersMax = 1'000'000;

// Returns true if the file begins as an archive with at least one member does.
bool LooksLikeZip(const ReadableFile& file);

struct ZipMember {
  std::string name;
  uint64_t size = 0;  // bytes of the content, as the archive says
};

// An archive that is open for reading. Thread-safe.
class ZipArchive {
 public:
  // Opens an archive; `path` is for messages. Errors: DATA_LOSS for a file that is no archive, with
  // more than kZipMembersMax members or with two members of one name; the file's errors.
  static absl::StatusOr<std::unique_ptr<ZipArchive>> Open(std::unique_ptr<ReadableFile> file,
                                                          const std::string& path);
  ~ZipArchive();

  const std::vector<ZipMember>& members() const { return members_; }
  std::optional<size_t> Find(absl::string_view name) const;

  // Returns the content of a member as a file in memory, with its checksum compared. Memory is
  // taken only if the archive can hold that much. Errors: RESOURCE_EXHAUSTED for a content above
  // `bytes_max`; UNIMPLEMENTED for an encrypted member or another compression; DATA_LOSS for a
  // damaged member. All name archive and member.
  absl::StatusOr<std::unique_ptr<ReadableFile>> Read(size_t index, uint64_t bytes_max) const;

 private:
  class Source;
  ZipArchive(std::unique_ptr<Source> source, std::string path);
  absl::Status Init();
  // Checks that a member can be read and that its size is possible.
  absl::Status CheckMember(size_t index, uint64_t bytes_max) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const std::string path_;
  std::vector<ZipMember> members_;  // constant after Init
  // Only one thread may use libzip's archive at a time.
  mutable Mutex mutex_;
  const std::unique_ptr<Source> source_;  // outlives archive_, which reads from it
  zip* archive_ ABSL_GUARDED_BY(mutex_) = nullptr;
};

}  // namespace cohort
