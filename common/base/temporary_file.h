#pragma once

// A file on its way to its final name. It is written under a name that no other writer has,
// "path.<16 hexadecimal digits>.tmp", as a new file: a file or symbolic link of another process is
// never written to, and no writer renames the half-written file of another. A file that cannot be
// written is removed. A file that is given up without an error, or whose process was killed, stays
// until somebody removes it (IsTemporaryName).

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "common/base/file_system.h"

namespace cohort {

// A file on its way to its final name. May be destroyed after the file system. Thread-compatible.
class TemporaryFile {
 public:
  // Errors: those of FileSystem::Create but ALREADY_EXISTS.
  static absl::StatusOr<std::unique_ptr<TemporaryFile>> Create(FileSystem& files,
                                                               const std::string& path);

  // Appends bytes. After an error of Append, Seal or Commit the file is gone, and this object must
  // not be used any more.
  absl::Status Append(absl::string_view bytes);
  // Syncs and closes: the bytes are durable, the final name is not there yet.
  absl::Status Seal();
  // Renames a sealed file: a reader sees what was there before or all of this file.
  absl::Status Commit();
  // Removes a file that is not to be committed.
  void Discard();

 private:
  TemporaryFile(FileSystem& files, std::string path, std::string temporary,
                std::unique_ptr<WritableFile> file);
  absl::Status DiscardOn(const absl::Status& error);

  FileSystem& files_;
  const std::string path_;
  const std::string temporary_;
  const std::unique_ptr<WritableFile> file_;
};

// Writes a TemporaryFile and commits it: a reader sees the old content or the new, never a part.
absl::Status WriteFileAtomically(FileSystem& files, const std::string& path,
                                 absl::string_view bytes);

// Returns the name or path under which a temporary file would have been committed, and any other
// name as it is.
absl::string_view FinalName(absl::string_view name);
bool IsTemporaryName(absl::string_view name);

// Removes what writers that were killed have left of `path`. For its only writer: another one would
// lose the file that it is writing. What cannot be removed stays.
void RemoveTemporaries(FileSystem& files, const std::string& path);

// Makes the directory and proves that files can be made in it. Errors: the file system's, naming
// the directory.
absl::Status ProbeDirectory(FileSystem& files, const std::string& directory);

}  // namespace cohort
