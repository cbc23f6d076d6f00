#include "common/records/unpacked/span_cache.h"

#include <utility>

#include "common/base/status.h"

namespace cohort {

uint64_t SpanCache::AddFile() {
  MutexLock lock(mutex_);
  return ++files_;
}

absl::StatusOr<SpanCache::Span> SpanCache::Get(
    uint64_t file, size_t number, absl::FunctionRef<absl::StatusOr<std::vector<char>>()> make) {
  const Key key(file, number);
  {
    MutexLock lock(mutex_);
    for (auto found = entries_.find(key); found != entries_.end(); found = entries_.find(key)) {
      if (found->second.span == nullptr) {
        made_.Wait(mutex_);
        continue;
      }
      order_.splice(order_.end(), order_, found->second.place);
      return found->second.span;
    }
    entries_[key] = {};
  }
  // The span is made outside the lock, because unpacking takes long.
  absl::StatusOr<std::vector<char>> made = make();
  Span span;
  if (made.ok()) span = std::make_shared<const std::vector<char>>(*std::move(made));
  MutexLock lock(mutex_);
  // After an error the next reader tries again.
  entries_.erase(key);
  if (span != nullptr) KeepLocked(key, span);
  made_.NotifyAll();
  if (span == nullptr) return made.status();
  return span;
}

void SpanCache::KeepLocked(const Key& key, Span span) {
  bytes_ += span->size();
  order_.push_back(key);
  entries_[key] = {std::move(span), std::prev(order_.end())};
  while (bytes_ > bytes_max_) {
    const auto oldest = entries_.find(order_.front());
    bytes_ -= oldest->second.span->size();
    entries_.erase(oldest);
    order_.pop_front();
  }
}

void SpanCache::RemoveFile(uint64_t file) {
  MutexLock lock(mutex_);
  for (auto entry = entries_.lower_bound({file, 0});
       entry != entries_.end() && entry->first.first == file;) {
    // Nobody makes a span of a file that nobody reads any more.
    bytes_ -= entry->second.span->size();
    order_.erase(entry->second.place);
    entry = entries_.erase(entry);
  }
}

size_t SpanCache::bytes() const {
  MutexLock lock(mutex_);
  return bytes_;
}

}  // namespace cohort
