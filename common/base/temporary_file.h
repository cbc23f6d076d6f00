#pragma once

// A file that has a temporary name until all of it is written. The temporary name, "path.<16
// hexadecimal digits>.tmp", belongs to one writer, and the file is always new. So no writer writes
// to a file or a symbolic link of another process, and no writer renames the half-written file of
// another writer. If the final name is a symbolic link, the file to which the link leads is the one
// that is replaced, and the temporary file lies beside it (file_links.h). The file is removed if
// writing fails. If a temporary file was abandoned without
// an error, or its process was killed, the file stays until some process removes it (see
// IsTemporaryName).

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "common/base/file_system.h"

namespace cohort {

// A file that is written under a temporary name and then renamed to its final name. May be
// destroyed after the file system. Thread-compatible.
class TemporaryFile {
 public:
  // Creates the temporary file for the final name `path`. Errors: the errors of FileSystem::Create
  // except ALREADY_EXISTS; those of PlaceToWrite.
  static absl::StatusOr<std::unique_ptr<TemporaryFile>> Create(FileSystem& files,
                                                               const std::string& path);

  // Appends bytes to the temporary file. After an error of Append, Seal or Commit, the file has
  // been removed and this object must not be used any more.
  absl::Status Append(absl::string_view bytes);
  // Syncs and closes the temporary file. Afterwards its bytes are durable, but the file does not
  // have its final name yet.
  absl::Status Seal();
  // Renames the sealed file to its final name. A reader of that name sees the old content or all of
  // the new content.
  absl::Status Commit();
  // Removes a temporary file that will not be committed.
  void Discard();

 private:
  TemporaryFile(FileSystem& files, std::string path, std::string place, std::string temporary,
                std::unique_ptr<WritableFile> file);
  absl::Status DiscardOn(const absl::Status& error);

  FileSystem& files_;
  const std::string path_;   // the final name that the caller knows, for messages
  const std::string place_;  // the path of the file that is replaced
  const std::string temporary_;
  const std::unique_ptr<WritableFile> file_;
};

// Writes `bytes` to a TemporaryFile and commits the file: a reader of `path` sees the old content
// or the new content, never a part.
absl::Status WriteFileAtomically(FileSystem& files, const std::string& path,
                                 absl::string_view bytes);

// Returns the final name that belongs to a temporary name, or the final path that belongs to a
// temporary path. A name that is not temporary is returned unchanged.
absl::string_view FinalName(absl::string_view name);
bool IsTemporaryName(absl::string_view name);

// Removes the temporary files with the final name `path` that killed writers have left behind. Only
// the sole writer of `path` may call this function: a file that another writer is still writing
// would also be removed. Temporary files that cannot be removed stay.
void RemoveTemporaries(FileSystem& files, const std::string& path);

// Creates the directory if it is missing, and checks that files can be created in the directory.
// Errors: the errors of the FileSystem, with the directory in the message.
absl::Status ProbeDirectory(FileSystem& files, const std::string& directory);

// Checks that WriteFileAtomically can write the file, and creates its directory. Errors: those of
// ProbeDirectory and PlaceToWrite; FAILED_PRECONDITION if `path` is a directory, a device or
// another file that is not regular.
absl::Status ProbeFile(FileSystem& files, const std::string& path);

}  // namespace cohort
