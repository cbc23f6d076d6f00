#pragma once

// The policy of a dynamic table: which keys get rows, and which rows are removed to make room. Only
// pushes count; a pull changes nothing, so a transport may repeat it.

#include <cstddef>
#include <cstdint>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace cohort {

struct RowPolicy {
  // The number of recent pushes after which a key gets its row; the gradients of the pushes before
  // the last of them are dropped.
  uint32_t admit_after = 1;
  // The probability that an admitted push makes the key's row. The random draw depends only on
  // (seed, table, key, step).
  double admit_probability = 1;
  // How long a row lives after its last push. An expired row is read and pushed as if it had never
  // existed.
  absl::Duration ttl = absl::InfiniteDuration();
  // The limit of the bytes of rows and their index; 0: no limit. At the limit a new row takes the
  // place of an old one: of some rows that are drawn, the one that was pushed longest ago, or least
  // often. The draw depends only on (new key, step) and on which rows exist, not on the order in
  // which they were made.
  size_t bytes_max = 0;
  enum class Evict { kLeastRecentlyUsed, kLeastFrequentlyUsed };
  Evict evict = Evict::kLeastRecentlyUsed;

  friend bool operator==(const RowPolicy&, const RowPolicy&) = default;
};

// Checks a policy. Errors: INVALID_ARGUMENT that names the table, the field and the permitted
// values.
absl::Status CheckRowPolicy(absl::string_view table, const RowPolicy& policy);

// The upper bound of RowPolicy::admit_after: a sight counter has 8 bits.
inline constexpr uint32_t kAdmitAfterMax = 200;

// The time stamp of a row: sixteenths of a second of its table's time (StepClock), which wrap
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
