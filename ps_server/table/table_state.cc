#include "ps_server/table/table_state.h"

#include <algorithm>

#include "common/base/check.h"

namespace cohort {

namespace {

// The largest value of an 8-bit counter, at which the counter stops. This value is enough, because
// admit_after is at most kAdmitAfterMax = 200.
constexpr uint8_t kMost = 255;

void Raise(uint8_t& counter, uint8_t least) { counter = std::max(counter, least); }

}  // namespace

void SightCounts::MakeCounters() {
  // The counters are allocated when the first key is seen, because many tables never need them.
  if (!current_.empty()) return;
  current_.resize(kCounters);
  last_.resize(kCounters);
}

void SightCounts::Merge(absl::Span<const uint8_t> current, absl::Span<const uint8_t> last,
                        size_t sights) {
  COHORT_CHECK(current.size() == kCounters && last.size() == kCounters,
               "each generation has all counters");
  MakeCounters();
  for (size_t i = 0; i < kCounters; ++i) {
    Raise(current_[i], current[i]);
    Raise(last_[i], last[i]);
  }
  // Each of the two merged generations has its number of sights. The larger number is taken, so
  // that the merged generation ends early rather than late.
  sights_ = std::min(std::max(sights_, sights), kSightsInGeneration);
}

uint32_t SightCounts::See(uint64_t hash) {
  MakeCounters();
  if (sights_ == kSightsInGeneration) {
    current_.swap(last_);
    std::fill(current_.begin(), current_.end(), uint8_t{0});
    sights_ = 0;
  }
  ++sights_;
  const auto [a, b] = PlacesOf(hash);
  // Each key has two counters, of which only those below the key's new count are raised. So two
  // keys that share one counter rarely raise each other's count.
  const uint8_t seen = std::min(current_[a], current_[b]);
  const uint8_t now = seen == kMost ? kMost : static_cast<uint8_t>(seen + 1);
  Raise(current_[a], now);
  Raise(current_[b], now);
  return uint32_t{now} + std::min(last_[a], last_[b]);
}

}  // namespace cohort
