#include "tests/support/world/memory_file_system.h"

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/mutex.h"

namespace cohort {

namespace {

struct Node {
  std::string bytes;
  size_t synced = 0;  // the durable prefix
};
using Names = std::map<std::string, std::shared_ptr<Node>>;  // shared: a name and open files

std::string Normal(const std::string& path) {
  std::string normal = std::filesystem::path(path).lexically_normal().string();
  if (normal.size() > 1 && normal.back() == '/') normal.pop_back();
  return normal.empty() ? "." : normal;
}

}  // namespace

// The state that file system and open files share. Thread-safe.
class MemoryFileSystem::Disk {
 public:
  absl::StatusOr<std::pair<std::shared_ptr<Node>, int64_t>> Create(const std::string& path);
  absl::StatusOr<std::pair<std::shared_ptr<Node>, int64_t>> Open(const std::string& path);
  absl::StatusOr<std::vector<std::string>> List(const std::string& directory);
  absl::Status Rename(const std::string& from, const std::string& to);
  absl::Status Remove(const std::string& path);
  absl::Status MakeDirectories(const std::string& path);

  absl::Status Append(Node& node, int64_t life, const std::string& path, absl::string_view bytes);
  absl::Status Sync(Node& node, int64_t life, const std::string& path);
  absl::Status Close(int64_t life, const std::string& path);
  absl::Status Read(const Node& node, int64_t life, const std::string& path, uint64_t offset,
                    absl::Span<char> out);
  uint64_t Size(const Node& node);

  int64_t operations();
  void FailAfter(int64_t calls, absl::Status status);
  void StopAfter(int64_t calls);
  void SetCapacity(uint64_t bytes);
  void Crash(CrashLoss loss);

 private:
  // Counts one call and answers with the fault that is due.
  absl::Status BeginLocked(const std::string& path) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status BeginOpenFileLocked(int64_t life, const std::string& path)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status CheckParentLocked(const std::string& path) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void SyncNamesLocked(const std::string& directory) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  uint64_t UsedLocked() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  Mutex mutex_;
  Names names_ ABSL_GUARDED_BY(mutex_);
  Names durable_names_ ABSL_GUARDED_BY(mutex_);
  std::set<std::string> directories_ ABSL_GUARDED_BY(mutex_) = {"/", "."};
  int64_t life_ ABSL_GUARDED_BY(mutex_) = 0;  // number of crashes; a file of an older life is dead
  int64_t operations_ ABSL_GUARDED_BY(mutex_) = 0;
  int64_t fail_at_ ABSL_GUARDED_BY(mutex_) = 0;
  absl::Status failure_ ABSL_GUARDED_BY(mutex_);
  int64_t stop_after_ ABSL_GUARDED_BY(mutex_) = std::numeric_limits<int64_t>::max();
  uint64_t capacity_ ABSL_GUARDED_BY(mutex_) = std::numeric_limits<uint64_t>::max();
};

absl::Status MemoryFileSystem::Disk::BeginLocked(const std::string& path) {
  ++operations_;
  if (operations_ == fail_at_) return Annotate(failure_, path);
  if (operations_ > stop_after_) {
    return absl::UnavailableError(absl::StrCat(path, ": the machine has crashed"));
  }
  return absl::OkStatus();
}

absl::Status MemoryFileSystem::Disk::BeginOpenFileLocked(int64_t life, const std::string& path) {
  RETURN_IF_ERROR(BeginLocked(path));
  if (life == life_) return absl::OkStatus();
  return absl::UnavailableError(absl::StrCat(path, ": was open when the machine crashed"));
}

absl::Status MemoryFileSystem::Disk::CheckParentLocked(const std::string& path) {
  const std::string parent = DirectoryOf(path);
  if (directories_.count(parent) > 0) return absl::OkStatus();
  if (names_.count(parent) > 0) {
    return absl::FailedPreconditionError(absl::StrCat(path, ": ", parent, " is not a directory"));
  }
  return absl::NotFoundError(absl::StrCat(path, ": no directory ", parent));
}

absl::StatusOr<std::pair<std::shared_ptr<Node>, int64_t>> MemoryFileSystem::Disk::Create(
    const std::string& path) {
  MutexLock lock(mutex_);
  RETURN_IF_ERROR(BeginLocked(path));
  RETURN_IF_ERROR(CheckParentLocked(path));
  if (directories_.count(path) > 0 || names_.count(path) > 0) {
    return absl::AlreadyExistsError(absl::StrCat("cannot create ", path, ": it exists"));
  }
  auto node = std::make_shared<Node>();
  names_[path] = node;
  return std::make_pair(std::move(node), life_);
}

absl::StatusOr<std::pair<std::shared_ptr<Node>, int64_t>> MemoryFileSystem::Disk::Open(
    const std::string& path) {
  MutexLock lock(mutex_);
  RETURN_IF_ERROR(BeginLocked(path));
  const auto found = names_.find(path);
  if (found != names_.end()) return std::make_pair(found->second, life_);
  if (directories_.count(path) > 0) {
    return absl::FailedPreconditionError(absl::StrCat(path, ": is not a regular file"));
  }
  return absl::NotFoundError(absl::StrCat(path, ": no such file"));
}

absl::StatusOr<std::vector<std::string>> MemoryFileSystem::Disk::List(
    const std::string& directory) {
  MutexLock lock(mutex_);
  RETURN_IF_ERROR(BeginLocked(directory));
  if (names_.count(directory) > 0) {
    return absl::FailedPreconditionError(absl::StrCat(directory, ": is not a directory"));
  }
  if (directories_.count(directory) == 0) {
    return absl::NotFoundError(absl::StrCat(directory, ": no such directory"));
  }
  std::set<std::string> entries;
  for (const auto& [path, node] : names_) {
    if (DirectoryOf(path) == directory) entries.insert(BaseName(path));
  }
  for (const std::string& path : directories_) {
    const bool is_root = path == "/" || path == ".";
    if (!is_root && DirectoryOf(path) == directory) entries.insert(BaseName(path));
  }
  return std::vector<std::string>(entries.begin(), entries.end());
}

void MemoryFileSystem::Disk::SyncNamesLocked(const std::string& directory) {
  for (auto entry = durable_names_.begin(); entry != durable_names_.end();) {
    const bool gone = DirectoryOf(entry->first) == directory && names_.count(entry->first) == 0;
    entry = gone ? durable_names_.erase(entry) : std::next(entry);
  }
  for (const auto& [path, node] : names_) {
    if (DirectoryOf(path) == directory) durable_names_[path] = node;
  }
}

absl::Status MemoryFileSystem::Disk::Rename(const std::string& from, const std::string& to) {
  MutexLock lock(mutex_);
  RETURN_IF_ERROR(BeginLocked(from));
  RETURN_IF_ERROR(CheckParentLocked(to));
  const auto source = names_.find(from);
  if (source == names_.end()) {
    return absl::NotFoundError(absl::StrCat("cannot rename ", from, " to ", to, ": no such file"));
  }
  if (directories_.count(to) > 0) {
    return absl::FailedPreconditionError(absl::StrCat(to, ": is a directory"));
  }
  std::shared_ptr<Node> node = source->second;
  names_.erase(source);
  names_[to] = std::move(node);
  SyncNamesLocked(DirectoryOf(to));
  return absl::OkStatus();
}

absl::Status MemoryFileSystem::Disk::Remove(const std::string& path) {
  MutexLock lock(mutex_);
  RETURN_IF_ERROR(BeginLocked(path));
  if (names_.erase(path) > 0 || directories_.count(path) == 0) return absl::OkStatus();
  const auto inside = [&](const std::string& other) {
    return other != path && DirectoryOf(other) == path;
  };
  const bool full =
      std::any_of(directories_.begin(), directories_.end(), inside) ||
      std::any_of(names_.begin(), names_.end(), [&](const auto& n) { return inside(n.first); });
  if (full) return absl::FailedPreconditionError(absl::StrCat(path, ": is not empty"));
  directories_.erase(path);
  return absl::OkStatus();
}

absl::Status MemoryFileSystem::Disk::MakeDirectories(const std::string& path) {
  MutexLock lock(mutex_);
  RETURN_IF_ERROR(BeginLocked(path));
  std::vector<std::string> missing;
  for (std::string step = path; directories_.count(step) == 0; step = DirectoryOf(step)) {
    if (names_.count(step) > 0) {
      return absl::FailedPreconditionError(absl::StrCat(step, ": is not a directory"));
    }
    missing.push_back(step);
  }
  directories_.insert(missing.begin(), missing.end());
  return absl::OkStatus();
}

uint64_t MemoryFileSystem::Disk::UsedLocked() const {
  uint64_t used = 0;
  for (const auto& [path, node] : names_) used += node->bytes.size();
  return used;
}

absl::Status MemoryFileSystem::Disk::Append(Node& node, int64_t life, const std::string& path,
                                            absl::string_view bytes) {
  MutexLock lock(mutex_);
  RETURN_IF_ERROR(BeginOpenFileLocked(life, path));
  const uint64_t used = UsedLocked();
  const size_t fits = std::min<uint64_t>(bytes.size(), capacity_ - std::min(used, capacity_));
  node.bytes.append(bytes.data(), fits);
  if (fits == bytes.size()) return absl::OkStatus();
  return absl::ResourceExhaustedError(absl::StrCat(path, ": no space left"));
}

absl::Status MemoryFileSystem::Disk::Sync(Node& node, int64_t life, const std::string& path) {
  MutexLock lock(mutex_);
  RETURN_IF_ERROR(BeginOpenFileLocked(life, path));
  node.synced = node.bytes.size();
  return absl::OkStatus();
}

absl::Status MemoryFileSystem::Disk::Close(int64_t life, const std::string& path) {
  MutexLock lock(mutex_);
  return BeginOpenFileLocked(life, path);
}

absl::Status MemoryFileSystem::Disk::Read(const Node& node, int64_t life, const std::string& path,
                                          uint64_t offset, absl::Span<char> out) {
  MutexLock lock(mutex_);
  RETURN_IF_ERROR(BeginOpenFileLocked(life, path));
  if (out.empty()) return absl::OkStatus();
  const size_t size = node.bytes.size();
  if (offset > size || out.size() > size - offset) {
    return absl::OutOfRangeError(
        absl::StrCat(path, " ends at byte ", size, "; wanted ", out.size(), " bytes at ", offset));
  }
  std::memcpy(out.data(), node.bytes.data() + offset, out.size());
  return absl::OkStatus();
}

uint64_t MemoryFileSystem::Disk::Size(const Node& node) {
  MutexLock lock(mutex_);
  return node.bytes.size();
}

int64_t MemoryFileSystem::Disk::operations() {
  MutexLock lock(mutex_);
  return operations_;
}

void MemoryFileSystem::Disk::FailAfter(int64_t calls, absl::Status status) {
  MutexLock lock(mutex_);
  fail_at_ = operations_ + calls + 1;
  failure_ = std::move(status);
}

void MemoryFileSystem::Disk::StopAfter(int64_t calls) {
  MutexLock lock(mutex_);
  stop_after_ = operations_ + calls;
}

void MemoryFileSystem::Disk::SetCapacity(uint64_t bytes) {
  MutexLock lock(mutex_);
  capacity_ = bytes;
}

void MemoryFileSystem::Disk::Crash(CrashLoss loss) {
  MutexLock lock(mutex_);
  ++life_;
  fail_at_ = 0;
  stop_after_ = std::numeric_limits<int64_t>::max();
  if (loss == CrashLoss::kUnsyncedBytesAndNames) names_ = durable_names_;
  durable_names_ = names_;
  for (const auto& [path, node] : names_) node->bytes.resize(node->synced);
}

// Thread-compatible.
class MemoryFileSystem::Writer final : public WritableFile {
 public:
  Writer(std::shared_ptr<Disk> disk, std::shared_ptr<Node> node, int64_t life, std::string path)
      : disk_(std::move(disk)), node_(std::move(node)), life_(life), path_(std::move(path)) {}

  absl::Status Append(absl::string_view bytes) override {
    RETURN_IF_ERROR(CheckOpen());
    return disk_->Append(*node_, life_, path_, bytes);
  }
  absl::Status Sync() override {
    RETURN_IF_ERROR(CheckOpen());
    return disk_->Sync(*node_, life_, path_);
  }
  absl::Status Close() override {
    RETURN_IF_ERROR(CheckOpen());
    closed_ = true;
    return disk_->Close(life_, path_);
  }

 private:
  absl::Status CheckOpen() const {
    if (!closed_) return absl::OkStatus();
    return absl::FailedPreconditionError(absl::StrCat(path_, ": is closed"));
  }

  const std::shared_ptr<Disk> disk_;
  const std::shared_ptr<Node> node_;
  const int64_t life_;
  const std::string path_;
  bool closed_ = false;
};

// Thread-safe.
class MemoryFileSystem::Reader final : public ReadableFile {
 public:
  Reader(std::shared_ptr<Disk> disk, std::shared_ptr<Node> node, int64_t life, std::string path)
      : disk_(std::move(disk)),
        node_(std::move(node)),
        life_(life),
        path_(std::move(path)),
        size_(disk_->Size(*node_)) {}

  uint64_t size() const override { return size_; }
  absl::Status Read(uint64_t offset, absl::Span<char> out) const override {
    return disk_->Read(*node_, life_, path_, offset, out);
  }

 private:
  const std::shared_ptr<Disk> disk_;
  const std::shared_ptr<Node> node_;
  const int64_t life_;
  const std::string path_;
  const uint64_t size_;
};

MemoryFileSystem::MemoryFileSystem() : disk_(std::make_shared<Disk>()) {}
MemoryFileSystem::~MemoryFileSystem() = default;

absl::StatusOr<std::unique_ptr<WritableFile>> MemoryFileSystem::Create(const std::string& path) {
  ASSIGN_OR_RETURN(auto created, disk_->Create(Normal(path)));
  return std::make_unique<Writer>(disk_, std::move(created.first), created.second, path);
}

absl::StatusOr<std::unique_ptr<ReadableFile>> MemoryFileSystem::Open(const std::string& path) {
  ASSIGN_OR_RETURN(auto opened, disk_->Open(Normal(path)));
  return std::make_unique<Reader>(disk_, std::move(opened.first), opened.second, path);
}

absl::StatusOr<std::vector<std::string>> MemoryFileSystem::List(const std::string& directory) {
  return disk_->List(Normal(directory));
}
absl::Status MemoryFileSystem::Rename(const std::string& from, const std::string& to) {
  return disk_->Rename(Normal(from), Normal(to));
}
absl::Status MemoryFileSystem::Remove(const std::string& path) {
  return disk_->Remove(Normal(path));
}
absl::Status MemoryFileSystem::MakeDirectories(const std::string& path) {
  return disk_->MakeDirectories(Normal(path));
}

int64_t MemoryFileSystem::operations() const { return disk_->operations(); }
void MemoryFileSystem::FailAfter(int64_t calls, absl::Status status) {
  disk_->FailAfter(calls, std::move(status));
}
void MemoryFileSystem::StopAfter(int64_t calls) { disk_->StopAfter(calls); }
void MemoryFileSystem::SetCapacity(uint64_t bytes) { disk_->SetCapacity(bytes); }
void MemoryFileSystem::Crash(CrashLoss loss) { disk_->Crash(loss); }

}  // namespace cohort
