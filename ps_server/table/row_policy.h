#pragma once

// The policy of a dynamic table: which keys get rows, and which rows make room again. Only pushes
// count: a pull changes nothing, however often a transport repeats it.

#include <cstddef>
#include <cstdint>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace cohort {

struct RowPolicy {
  // Pushes of a key, among those lately, until it gets its row with the last of them. What came
  // before is dropped.
  uint32_t admit_after = 1;
  // The probability that such a push makes the row; the draw depends on (seed, table, key, step)
  // alone.
  double admit_probability = 1;
  // A row that had no push for so long is as if it had never been.
  absl::Duration ttl = absl::InfiniteDuration();
  // The limit of rows and their index; 0: no limit. At the limit a new row takes the place of an
  // old one: of some that are drawn, the one that was pushed longest ago, or least often. The draw
  // depends on (new key, step) and on which rows there are, not on how these came here.
  size_t bytes_max = 0;
  enum class Evict { kLeastRecentlyUsed, kLeastFrequentlyUsed };
  Evict evict = Evict::kLeastRecentlyUsed;

  friend bool operator==(const RowPolicy&, const RowPolicy&) = default;
};

// Errors: INVALID_ARGUMENT naming the table, the field and what it may be.
absl::Status CheckRowPolicy(absl::string_view table, const RowPolicy& policy);

inline constexpr uint32_t kAdmitAfterMax = 200;

// The stamp of a row: sixteenths of a second of its table's time (step_clock.h), which wrap around
// after eight years. Thread-safe.
class RowTime {
 public:
  static uint32_t At(absl::Time now) {
    return static_cast<uint32_t>(absl::ToUnixMicros(now) / 62500);
  }
  static int32_t Age(uint32_t stamp, uint32_t now) { return static_cast<int32_t>(now - stamp); }
  static constexpr absl::Duration kTick = absl::Microseconds(62500);
  static constexpr absl::Duration kLongest = absl::Hours(24 * 365 * 4);
};

}  // namespace cohort
