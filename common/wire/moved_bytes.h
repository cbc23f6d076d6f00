#pragma once

// What counts as progress of a call whose messages take long, as large ones do on a slow link. Such
// a call has two limits (Message::silence and the time-out of Channel::Start):
//
//   silence    ends the call when fewer than kProgressBytes have moved on its connection for so
//              long. The connection counts, not the call: its messages travel one after another.
//   time-out   ends the call in any case. LongestTime gives one that no peer reaches which moves
//              kBytesPerSecondMin, so a peer that trickles bytes does not hold a call for ever.

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <utility>

#include "absl/time/time.h"

namespace cohort {

// Bytes that count as progress when all of them have moved. A peer that moves fewer within a
// call's silence counts as silent.
inline constexpr size_t kProgressBytes = size_t{64} << 10;

// The slowest rate, averaged over a call, at which the call's bytes may travel.
inline constexpr double kBytesPerSecondMin = 64 << 10;

// Returns the time-out of a call that may be silent for `silence`, and whose request and answer
// have `bytes` bytes together.
absl::Duration LongestTime(absl::Duration silence, size_t bytes);

// A count of the bytes that moved on a connection, in both directions, and the time of the last
// progress. Thread-safe.
class MovedBytes {
 public:
  using Time = std::chrono::steady_clock::time_point;
  explicit MovedBytes(std::function<Time()> now) : now_(std::move(now)) {}

  void Add(size_t bytes);
  // Returns the time of the last progress; Time::min() if there was none.
  Time last() const { return Time(Time::duration(last_.load())); }
  // Returns the time since the last progress; infinite if there was none.
  absl::Duration Since() const;

 private:
  const std::function<Time()> now_;
  std::atomic<uint64_t> total_{0};
  std::atomic<uint64_t> counted_{0};  // value of `total_` at the last progress
  std::atomic<Time::rep> last_{Time::min().time_since_epoch().count()};
};

}  // namespace cohort
