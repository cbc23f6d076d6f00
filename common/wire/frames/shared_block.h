#pragma once

// Memory that two processes of one host share. Its maker writes it; the other end gets the
// descriptor over a unix socket and maps it to read. The size is sealed, so that a reader never
// touches a page that its maker took away. Internal to common/wire.

#include <cstddef>
#include <memory>

#include "absl/status/statusor.h"
#include "common/base/unique_fd.h"

namespace cohort {

// A mapping of a whole descriptor. Thread-compatible.
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

// The maker's end. Thread-compatible.
struct SharedBlock {
  UniqueFd fd;
  Mapping memory;
};

// Makes a block of at least `size` bytes, whole pages, filled with zeros. Errors:
// RESOURCE_EXHAUSTED with the system's reason.
absl::StatusOr<SharedBlock> MakeSharedBlock(size_t size);

// Maps the reader's end of a block that came from another process. Errors: INVALID_ARGUMENT if its
// size is not sealed or above `size_max`; RESOURCE_EXHAUSTED if it cannot be mapped.
absl::StatusOr<Mapping> MapSharedBlock(const UniqueFd& fd, size_t size_max);

}  // namespace cohort
