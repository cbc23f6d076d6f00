#pragma once

// A disk in memory that can fail in the ways that a real one does. Two things become durable apart
// from each other: the bytes of a file, by Sync, and the names in a directory, by the next Rename
// into it. Crash takes away what is not durable; afterwards every open file is dead.

#include <memory>

#include "common/base/file_system.h"

namespace cohort {

// What a crash takes. A program must survive both, because a real disk may keep any part.
enum class CrashLoss {
  kUnsyncedBytesAndNames,  // files created or removed since the last Rename are back as before
  kUnsyncedBytes,          // names are as they were seen last
};

// The root directories "/" and "." exist. Directories survive every crash. Thread-safe.
class MemoryFileSystem final : public FileSystem {
 public:
  MemoryFileSystem();
  ~MemoryFileSystem() override;

  absl::StatusOr<std::unique_ptr<WritableFile>> Create(const std::string& path) override;
  absl::StatusOr<std::unique_ptr<ReadableFile>> Open(const std::string& path) override;
  absl::StatusOr<std::vector<std::string>> List(const std::string& directory) override;
  absl::Status Rename(const std::string& from, const std::string& to) override;
  absl::Status Remove(const std::string& path) override;
  absl::Status MakeDirectories(const std::string& path) override;

  // Calls so far, of this class and of its files; a test sweeps a fault over all of them.
  int64_t operations() const;
  // The call after `calls` more fails with `status`, once, and does nothing.
  void FailAfter(int64_t calls, absl::Status status);
  // All calls after `calls` more fail with UNAVAILABLE until Crash: the power went.
  void StopAfter(int64_t calls);
  // Appends that would bring the bytes of all files over `bytes` write what fits and fail with
  // RESOURCE_EXHAUSTED.
  void SetCapacity(uint64_t bytes);
  // Loses what is not durable, and ends every fault but the capacity.
  void Crash(CrashLoss loss);

 private:
  class Disk;
  class Writer;
  class Reader;
  const std::shared_ptr<Disk> disk_;  // shared: open files reach the disk and may outlive this
};

}  // namespace cohort
