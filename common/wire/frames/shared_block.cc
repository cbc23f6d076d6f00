#include "common/wire/frames/shared_block.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/errno_text.h"
#include "common/base/status.h"

namespace cohort {

namespace {

constexpr size_t kPageBytes = 4096;

absl::Status SystemError(absl::string_view what) {
  return absl::ResourceExhaustedError(
      absl::StrCat("shared memory: ", what, ": ", ErrnoText(errno)));
}

// The most bytes of free blocks that a pool keeps. The pool unmaps free blocks above this limit.
constexpr size_t kFreeBytesMax = size_t{256} << 20;

// A free block of more than kWasteMax times the payload's size is not used but left for larger
// payloads.
constexpr size_t kWasteMax = 4;

}  // namespace

absl::StatusOr<Mapping> Mapping::Of(int fd, size_t size, int protection) {
  // MAP_POPULATE maps all pages at once, which is faster than a page fault for each page.
  void* const data = mmap(nullptr, size, protection, MAP_SHARED | MAP_POPULATE, fd, 0);
  if (data == MAP_FAILED) return SystemError(absl::StrCat("mapping ", size, " bytes"));
  return Mapping(static_cast<std::byte*>(data), size);
}

Mapping::Mapping(Mapping&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), size_(other.size_) {}

Mapping::~Mapping() {
  if (data_ != nullptr) munmap(data_, size_);
}

absl::StatusOr<SharedBlock> MakeSharedBlock(size_t size) {
  const size_t bytes = (size + kPageBytes - 1) / kPageBytes * kPageBytes;
  UniqueFd fd(memfd_create("cohort-block", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!fd.ok()) return SystemError("memfd_create");
  if (ftruncate(fd.get(), static_cast<off_t>(bytes)) != 0) return SystemError("ftruncate");
  // The size is sealed, because the process that reads the block accepts only memory that cannot
  // shrink.
  if (fcntl(fd.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0) {
    return SystemError("sealing");
  }
  ASSIGN_OR_RETURN(Mapping memory, Mapping::Of(fd.get(), bytes, PROT_READ | PROT_WRITE));
  return SharedBlock{std::move(fd), std::move(memory)};
}

absl::StatusOr<Mapping> MapSharedBlock(const UniqueFd& fd, size_t size_max) {
  const int seals = fcntl(fd.get(), F_GET_SEALS);
  struct stat info = {};
  // The memory must not shrink: if a peer shrank it, reading it would end this process with SIGBUS.
  if (seals < 0 || (seals & F_SEAL_SHRINK) == 0 || fstat(fd.get(), &info) != 0) {
    return absl::InvalidArgumentError("a shared block of a peer is not memory of sealed size");
  }
  const auto size = static_cast<size_t>(info.st_size);
  if (size == 0 || size > size_max) {
    return absl::InvalidArgumentError(
        absl::StrCat("a shared block of a peer has ", size, " bytes; at most ", size_max));
  }
  return Mapping::Of(fd.get(), size, PROT_READ);
}

absl::StatusOr<BlockPool::Lent> BlockPool::Take(size_t size) {
  MutexLock lock(mutex_);
  for (auto i = free_.begin(); i != free_.end(); ++i) {
    const Mapping& memory = blocks_.at(*i).memory;
    if (memory.size() < size || memory.size() / kWasteMax > size) continue;
    const Lent lent{*i, memory.data(), -1};
    free_bytes_ -= memory.size();
    free_.erase(i);
    return lent;
  }
  // No free block fits, so a new block is made. The other end needs the descriptor of the new
  // block.
  ASSIGN_OR_RETURN(SharedBlock block, MakeSharedBlock(size));
  const Lent lent{++last_id_, block.memory.data(), block.fd.get()};
  blocks_.emplace(lent.id, std::move(block));
  return lent;
}

uint64_t BlockPool::NewId() {
  MutexLock lock(mutex_);
  return ++last_id_;
}

bool BlockPool::GiveBack(uint64_t id) {
  MutexLock lock(mutex_);
  const auto found = blocks_.find(id);
  // The peer chose the id, so the id may be wrong: never lent, or given back before.
  if (found == blocks_.end() || std::find(free_.begin(), free_.end(), id) != free_.end()) {
    return false;
  }
  free_.push_front(id);
  free_bytes_ += found->second.memory.size();
  DropFree();
  return true;
}

void BlockPool::DropFree() {
  // One free block is kept even if it exceeds the limit, because otherwise every large payload
  // might need a new mapping.
  while (free_bytes_ > kFreeBytesMax && free_.size() > 1) {
    const auto oldest = blocks_.find(free_.back());
    free_bytes_ -= oldest->second.memory.size();
    dropped_.push_back(oldest->first);
    blocks_.erase(oldest);
    free_.pop_back();
  }
}

std::vector<uint64_t> BlockPool::TakeDropped() {
  MutexLock lock(mutex_);
  return std::exchange(dropped_, {});
}

}  // namespace cohort
