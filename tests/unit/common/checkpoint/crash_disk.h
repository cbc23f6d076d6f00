#pragma once

// A disk in memory that can lose power. Every operation that changes it is counted; from operation
// `fail_at` on all of them fail, as when the process has died. What was appended and not synced is
// gone after a crash: the worst that POSIX allows. A rename is durable once it has returned, as
// FileSystem promises.

#include <algorithm>
#include <cstring>
#include <limits>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/file_system.h"

namespace cohort {

// Thread-compatible.
class CrashDisk final : public FileSystem {
 public:
  static constexpr int kNever = std::numeric_limits<int>::max();

  explicit CrashDisk(int fail_at) : fail_at_(fail_at) {}

  int operations() const { return operations_; }
  bool crashed() const { return operations_ >= fail_at_; }
  // Content of a file, to be looked at or damaged.
  std::string& bytes(const std::string& path) { return contents_.at(path)->bytes; }
  bool has(const std::string& path) const { return contents_.count(path) > 0; }

  // The disk as the next process finds it.
  std::unique_ptr<CrashDisk> AfterCrash() const {
    auto disk = std::make_unique<CrashDisk>(kNever);
    for (const auto& [path, content] : contents_) {
      disk->contents_[path] = std::make_shared<Content>(
          Content{content->bytes.substr(0, content->synced), content->synced});
    }
    return disk;
  }
  // The same disk, which will lose power at operation `fail_at`, counted from now.
  std::unique_ptr<CrashDisk> Copy(int fail_at) const {
    auto disk = std::make_unique<CrashDisk>(fail_at);
    for (const auto& [path, content] : contents_) {
      disk->contents_[path] = std::make_shared<Content>(*content);
    }
    return disk;
  }

  absl::StatusOr<std::unique_ptr<WritableFile>> Create(const std::string& path) override {
    RETURN_IF_ERROR(Operate());
    auto content = std::make_shared<Content>();
    contents_[path] = content;
    return std::make_unique<Writer>(*this, std::move(content));
  }
  absl::StatusOr<std::unique_ptr<ReadableFile>> Open(const std::string& path) override {
    const auto found = contents_.find(path);
    if (found == contents_.end()) return absl::NotFoundError(absl::StrCat("no file ", path));
    return std::make_unique<Reader>(found->second);
  }
  absl::StatusOr<std::vector<std::string>> List(const std::string& directory) override {
    std::vector<std::string> names;
    for (const auto& [path, content] : contents_) {
      if (DirectoryOf(path) == directory) names.push_back(BaseName(path));
    }
    return names;
  }
  absl::Status Rename(const std::string& from, const std::string& to) override {
    RETURN_IF_ERROR(Operate());
    const auto found = contents_.find(from);
    if (found == contents_.end()) return absl::NotFoundError(absl::StrCat("no file ", from));
    contents_[to] = found->second;
    contents_.erase(from);
    return absl::OkStatus();
  }
  absl::Status Remove(const std::string& path) override {
    RETURN_IF_ERROR(Operate());
    contents_.erase(path);
    return absl::OkStatus();
  }
  absl::Status MakeDirectories(const std::string&) override { return Operate(); }

 private:
  struct Content {
    std::string bytes;
    size_t synced = 0;
  };

  class Writer final : public WritableFile {
   public:
    Writer(CrashDisk& disk, std::shared_ptr<Content> content)
        : disk_(disk), content_(std::move(content)) {}
    absl::Status Append(absl::string_view bytes) override {
      RETURN_IF_ERROR(disk_.Operate());
      content_->bytes.append(bytes.data(), bytes.size());
      return absl::OkStatus();
    }
    absl::Status Sync() override {
      RETURN_IF_ERROR(disk_.Operate());
      content_->synced = content_->bytes.size();
      return absl::OkStatus();
    }
    absl::Status Close() override { return disk_.Operate(); }

   private:
    CrashDisk& disk_;
    const std::shared_ptr<Content> content_;  // shared with the directory
  };

  class Reader final : public ReadableFile {
   public:
    explicit Reader(std::shared_ptr<const Content> content) : content_(std::move(content)) {}
    uint64_t size() const override { return content_->bytes.size(); }
    absl::Status Read(uint64_t offset, absl::Span<char> out) const override {
      if (offset > size() || out.size() > size() - offset) {
        return absl::OutOfRangeError("beyond the end of the file");
      }
      std::copy_n(content_->bytes.data() + offset, out.size(), out.data());
      return absl::OkStatus();
    }

   private:
    const std::shared_ptr<const Content> content_;
  };

  absl::Status Operate() {
    if (operations_ >= fail_at_) return absl::UnavailableError("the disk has lost power");
    ++operations_;
    return absl::OkStatus();
  }

  const int fail_at_;
  int operations_ = 0;
  std::map<std::string, std::shared_ptr<Content>> contents_;
};

}  // namespace cohort
