#include "ps_server/table/row_policy.h"

#include "absl/strings/str_cat.h"

namespace cohort {

namespace {

// The smallest permitted RowPolicy::bytes_max. With a lower limit, huge pages and the counters of
// seen keys would leave little memory for rows.
constexpr size_t kBytesMaxLeast = size_t{8} << 20;

absl::Status Bad(absl::string_view table, absl::string_view what) {
  return absl::InvalidArgumentError(absl::StrCat("table '", table, "': ", what));
}

}  // namespace

absl::Status CheckRowPolicy(absl::string_view table, const RowPolicy& policy) {
  if (policy.admit_after < 1 || policy.admit_after > kAdmitAfterMax) {
    return Bad(table, absl::StrCat("admit_after is ", policy.admit_after, "; it is 1 to ",
                                   kAdmitAfterMax));
  }
  if (!(policy.admit_probability > 0 && policy.admit_probability <= 1)) {
    return Bad(table, absl::StrCat("admit_probability is ", policy.admit_probability,
                                   "; it is above 0 and at most 1"));
  }
  const bool never = policy.ttl == absl::InfiniteDuration();
  if (policy.ttl <= absl::ZeroDuration() || (!never && policy.ttl > RowTime::kLongest)) {
    return Bad(table, absl::StrCat("ttl is ", absl::FormatDuration(policy.ttl),
                                   "; it is above 0 and at most four years"));
  }
  if (policy.bytes_max != 0 && policy.bytes_max < kBytesMaxLeast) {
    return Bad(table, absl::StrCat("bytes_max is ", policy.bytes_max, "; it is 0 (no limit) or ",
                                   kBytesMaxLeast, " or more"));
  }
  return absl::OkStatus();
}

}  // namespace cohort
