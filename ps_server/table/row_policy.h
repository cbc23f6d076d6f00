#pragma once

// The policy of a dynamic table: which keys get rows, and which rows are removed to make room. Only
// pushes make and remove rows; a pull changes nothing, so it may be repeated.

#include <cstddef>
#include <cstdint>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace cohort {

struct RowPolicy {
  // The number of recent pushes of a key with which the key gets its row. The gradients of the
  // key's earlier pushes are dropped.
  uint32_t admit_after = 1;
  // The probability with which a push makes the key's row once the key has been pushed
  // `admit_after` times. The random draw depends only on (seed, table, key, step).
  double admit_probability = 1;
  // The time after its last push at which a row expires. The key of an expired row is treated as if
  // it had never had a row.
  absl::Duration ttl = absl::InfiniteDuration();
  // The limit of the total bytes of the table's rows and their index; 0 for no limit. At the limit,
  // each new row replaces an old row: some rows are drawn at random, and the least recently pushed
  // of these, or the least frequently pushed (`evict`), is removed. The draw depends only on (new
  // key, step) and on which rows exist, not on the order in which the rows were made.
  size_t bytes_max = 0;
  enum class Evict { kLeastRecentlyUsed, kLeastFrequentlyUsed };
  Evict evict = Evict::kLeastRecentlyUsed;

  friend bool operator==(const RowPolicy&, const RowPolicy&) = default;
};

// Checks the fields of a policy. Errors: INVALID_ARGUMENT that names the table, the field and the
// permitted values.
absl::Status CheckRowPolicy(absl::string_view table, const RowPolicy& policy);

// The largest permitted RowPolicy::admit_after. The 8-bit counters of seen keys (SightCounts) can
// count that far.
inline constexpr uint32_t kAdmitAfterMax = 200;

// The time stamps of rows: the table's time (StepClock) in units of 1/16 second. The stamps wrap
// around after eight years. Thread-safe.
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
