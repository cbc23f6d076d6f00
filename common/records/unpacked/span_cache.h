#pragma once

// Keeps the unpacked data between restart points of compressed files, so that records near each
// other are unpacked once although they are read at different times. One cache serves all files of
// a process, which bounds the memory however many files there are.

#include <cstddef>
#include <cstdint>
#include <list>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "common/base/mutex.h"

namespace cohort {

// Thread-safe.
class SpanCache {
 public:
  using Span = std::shared_ptr<const std::vector<char>>;
  // Spans above this are not kept: one would take the room of many.
  static constexpr size_t kSpanBytesMax = size_t{4} << 20;

  // Keeps up to `bytes_max` bytes; spans that readers hold beyond that are their own.
  explicit SpanCache(size_t bytes_max) : bytes_max_(bytes_max) {}

  // Returns a number for a file, under which its spans are kept.
  uint64_t AddFile();
  // Returns span number `number` of a file: the one that is kept, or else the result of `make`,
  // which another thread that asks for the same span waits for. Errors: those of `make`.
  absl::StatusOr<Span> Get(uint64_t file, size_t number,
                           absl::FunctionRef<absl::StatusOr<std::vector<char>>()> make);
  // Drops the spans of a file.
  void RemoveFile(uint64_t file);

  // Returns the bytes of the spans that are kept.
  size_t bytes() const;

 private:
  using Key = std::pair<uint64_t, size_t>;
  struct Entry {
    Span span;                       // null: a thread makes it
    std::list<Key>::iterator place;  // its place in order_, unless it is being made
  };

  void KeepLocked(const Key& key, Span span) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const size_t bytes_max_;
  mutable Mutex mutex_;
  CondVar made_;
  uint64_t files_ ABSL_GUARDED_BY(mutex_) = 0;
  size_t bytes_ ABSL_GUARDED_BY(mutex_) = 0;
  std::map<Key, Entry> entries_ ABSL_GUARDED_BY(mutex_);
  std::list<Key> order_ ABSL_GUARDED_BY(mutex_);  // the span that was used last is the last one
};

}  // namespace cohort
