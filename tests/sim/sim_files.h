#pragma once

// The shared disk as one simulated process reaches it. A watcher sees every call before it is made
// and may make it slow, let it fail, or kill the process in the middle of it: an Append then leaves
// a part of its bytes. A dead process changes nothing more on the disk.

#include <memory>
#include <string>
#include <vector>

#include "common/base/file_system.h"

namespace cohort {

struct FileCall {
  enum class Kind { kCreate, kAppend, kSync, kClose, kOpen, kRead, kList, kRename, kRemove, kMake };
  Kind kind = Kind::kOpen;
  std::string path;  // of a rename: where to
  size_t bytes = 0;  // of an append
};

// Lives on the world's thread.
class FileWatcher {
 public:
  virtual ~FileWatcher() = default;
  // An error ends the call. `written`: how much of an append is done although it fails.
  virtual absl::Status OnFileCall(const std::string& host, const FileCall& call,
                                  size_t* written) = 0;
  // It was done.
  virtual void OnFileDone(const std::string& host, const FileCall& call) = 0;
};

// Lives on the world's thread.
class SimFiles final : public FileSystem {
 public:
  SimFiles(FileSystem& disk, FileWatcher& watcher, std::string host)
      : view_(std::make_shared<View>(View{disk, watcher, std::move(host), true})) {}

  // The process has died.
  void Kill() { view_->alive = false; }

  absl::StatusOr<std::unique_ptr<WritableFile>> Create(const std::string& path) override;
  absl::StatusOr<std::unique_ptr<ReadableFile>> Open(const std::string& path) override;
  absl::StatusOr<std::vector<std::string>> List(const std::string& directory) override;
  absl::Status Rename(const std::string& from, const std::string& to) override;
  absl::Status Remove(const std::string& path) override;
  absl::Status MakeDirectories(const std::string& path) override;

 private:
  struct View {
    FileSystem& disk;
    FileWatcher& watcher;
    const std::string host;
    bool alive;
    absl::Status Ask(const FileCall& call, size_t* written);
    absl::Status Tell(const FileCall& call, const absl::Status& result);
  };
  class Writer;
  class Reader;
  const std::shared_ptr<View> view_;  // shared with open files
};

}  // namespace cohort
