#pragma once

// Writes ZIP archives: local headers with their members' bytes, then a directory of all members,
// then the records that close the archive. zip_archive.h reads archives.

#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "common/base/temporary_file.h"

namespace cohort {

// The writer of a ZIP archive whose members are stored as they are, with ZIP64 where sizes need it.
// The archive goes out in one pass, as durable files here are written, which libzip cannot do: it
// goes back to a member's header. Equal members give equal bytes: no time stands in the archive.
// Thread-compatible.
class ZipWriter {
 public:
  // Begins an archive under a temporary name. Errors: those of TemporaryFile::Create.
  static absl::StatusOr<std::unique_ptr<ZipWriter>> Create(FileSystem& files,
                                                           const std::string& path);

  // Appends a member, whose content is the concatenation of `pieces`. Errors: INVALID_ARGUMENT for
  // an empty name, one above 65,535 bytes, and one that is given twice; the file system's errors.
  // After an error the writer must not be used any more.
  absl::Status Add(const std::string& name, absl::Span<const absl::string_view> pieces);
  // Writes the table of contents and gives the archive its final name.
  absl::Status Finish();
  // Removes an archive that will not be finished.
  void Discard();

 private:
  struct Member {
    std::string name;
    uint64_t size = 0;
    uint64_t offset = 0;
    uint32_t crc = 0;
  };
  explicit ZipWriter(std::unique_ptr<TemporaryFile> file);
  absl::Status Append(absl::string_view bytes);

  static std::string LocalHeader(const Member& member);
  static std::string DirectoryEntry(const Member& member);
  // Returns the records that close an archive whose directory has `size` bytes.
  std::string EndOfArchive(uint64_t size) const;

  const std::unique_ptr<TemporaryFile> file_;
  std::vector<Member> members_;
  std::set<std::string> names_;  // those of members_
  uint64_t offset_ = 0;
};

}  // namespace cohort
