#pragma once

// Ownership of file descriptors: sockets, pipes, memory files and pidfds.

#include <unistd.h>

#include <utility>

namespace cohort {

// The owner of a file descriptor, which it closes when it is destroyed. Thread-compatible.
class UniqueFd {
 public:
  UniqueFd() = default;
  explicit UniqueFd(int fd) : fd_(fd) {}
  UniqueFd(UniqueFd&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  UniqueFd& operator=(UniqueFd&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~UniqueFd() {
    if (fd_ >= 0) close(fd_);
  }

  int get() const { return fd_; }
  bool ok() const { return fd_ >= 0; }
  // Returns the descriptor, which the caller must close: this object no longer owns the descriptor.
  int Release() { return std::exchange(fd_, -1); }

 private:
  int fd_ = -1;
};

}  // namespace cohort
