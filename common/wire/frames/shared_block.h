#pragma once

// Memory that two processes of one host share. The process that makes the memory writes to it. The
// other process gets the descriptor over a unix socket and maps the memory to read it. The size is
// sealed, so a reader never touches a page that was taken away. Internal to common/wire.

#include <cstddef>
#include <memory>

#include "absl/status/statusor.h"
#include "common/base/unique_fd.h"

namespace cohort {

// A mapping of all bytes of a descriptor. Thread-compatible.
class Mapping {
 public:
  // Maps `fd` with `protection` as for mmap. Errors: RESOURCE_EXHAUSTED with the system's reason.
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

// A shared block in the process that made it. Thread-compatible.
struct SharedBlock {
  UniqueFd fd;
  Mapping memory;
};

// Makes a block of at least `size` bytes. The block consists of whole pages, filled with zeros.
// Errors: RESOURCE_EXHAUSTED with the system's reason.
absl::StatusOr<SharedBlock> MakeSharedBlock(size_t size);

// Maps a block from another process, for reading. Errors: INVALID_ARGUMENT if the size of the block
// is not sealed or above `size_max`; RESOURCE_EXHAUSTED if the block cannot be mapped.
absl::StatusOr<Mapping> MapSharedBlock(const UniqueFd& fd, size_t size_max);

}  // namespace cohort
