#pragma once

// Memory that two processes of one host share. The process that makes the memory writes to it. The
// other process gets the memory's descriptor over a unix socket, and maps the memory to read it.
// The size of the memory is sealed, so a reader never touches a page that was taken away. Internal
// to common/wire.

#include <cstddef>
#include <cstdint>
#include <list>
#include <map>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "common/base/mutex.h"
#include "common/base/unique_fd.h"

namespace cohort {

// A memory mapping of a file descriptor's whole content. Thread-compatible.
class Mapping {
 public:
  // Maps the first `size` bytes of `fd`, with a `protection` as mmap takes. Errors:
  // RESOURCE_EXHAUSTED with the system's reason.
  static absl::StatusOr<Mapping> Of(int fd, size_t size, int protection);
  Mapping(Mapping&& other) noexcept;
  Mapping& operator=(Mapping&&) = delete;
  ~Mapping();

  std::byte* data() const { return data_; }
  size_t size() const { return size_; }

 private:
  Mapping(std::byte* data, size_t size) : data_(data), size_(size) {}
  std::byte* data_;
  size_t size_;
};

// A block of shared memory in the process that made the block. Thread-compatible.
struct SharedBlock {
  UniqueFd fd;
  Mapping memory;
};

// Makes a block of at least `size` bytes. The block consists of whole pages, filled with zeros.
// Errors: RESOURCE_EXHAUSTED with the system's reason.
absl::StatusOr<SharedBlock> MakeSharedBlock(size_t size);

// Maps a block of another process for reading. Errors: INVALID_ARGUMENT if the size of the block is
// not sealed, is 0, or is above `size_max`; RESOURCE_EXHAUSTED if the block cannot be mapped.
absl::StatusOr<Mapping> MapSharedBlock(const UniqueFd& fd, size_t size_max);

// A pool of the shared blocks in which one end of a local connection sends payloads. A block is
// taken for a payload, read by the other end, given back and used again. So once the pool has
// enough blocks, it makes no new ones. Thread-safe.
class BlockPool {
 public:
  struct Lent {
    uint64_t id = 0;  // block ids count from 1
    std::byte* data = nullptr;
    // The block's descriptor if the block is new, so that the other end needs the descriptor, else
    // -1.
    int fd = -1;
  };

  // Returns a block of at least `size` bytes with undefined content. Errors: RESOURCE_EXHAUSTED if
  // the system gives no memory for a new block.
  absl::StatusOr<Lent> Take(size_t size);

  // Returns a new block id for memory that does not belong to the pool but is lent over the same
  // connection.
  uint64_t NewId();

  // Takes back a block that the other end has read. Returns false if no block with this id is lent.
  bool GiveBack(uint64_t id);

  // Returns the ids of the blocks that the pool has unmapped since the last call, so that the other
  // end unmaps these blocks too. The pool unmaps blocks when its free blocks have too many bytes.
  std::vector<uint64_t> TakeDropped();

 private:
  void DropFree() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  Mutex mutex_;
  uint64_t last_id_ ABSL_GUARDED_BY(mutex_) = 0;
  std::map<uint64_t, SharedBlock> blocks_ ABSL_GUARDED_BY(mutex_);
  // The free blocks; the block that was used last is first, because it is in the processor's cache.
  std::list<uint64_t> free_ ABSL_GUARDED_BY(mutex_);
  size_t free_bytes_ ABSL_GUARDED_BY(mutex_) = 0;
  std::vector<uint64_t> dropped_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace cohort
