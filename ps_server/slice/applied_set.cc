#include "ps_server/slice/applied_set.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/invariants.h"
#include "common/base/status.h"
#include "common/wire/error_detail.h"

namespace cohort {

absl::StatusOr<AppliedSet> AppliedSet::FromIntervals(uint64_t watermark,
                                                     std::vector<Interval> intervals) {
  AppliedSet set;
  if (intervals.size() > set.intervals_max_) {
    return absl::DataLossError(
        absl::StrCat(intervals.size(), " intervals of closures, of at most ", set.intervals_max_));
  }
  for (size_t i = 0; i < intervals.size(); ++i) {
    const Interval& each = intervals[i];
    // The first interval may begin at the watermark. Each later interval must leave at least one id
    // free after the interval before it, because two adjacent intervals would be one. The check
    // subtracts ids, because adding 1 to an id could overflow.
    const bool after =
        i == 0 ? each.first >= watermark
               : each.first > intervals[i - 1].last && each.first - intervals[i - 1].last > 1;
    if (!after || each.last < each.first) {
      return absl::DataLossError(absl::StrCat("interval ", i, " of closures, ", each.first, " to ",
                                              each.last, ", does not follow the one before it"));
    }
  }
  set.watermark_ = watermark;
  set.intervals_ = std::move(intervals);
  return set;
}

std::vector<AppliedSet::Interval>::const_iterator AppliedSet::EndingFrom(uint64_t id) const {
  // Pushes arrive nearly in the order of their ids, so the last interval is checked before the
  // binary search.
  if (!intervals_.empty() && intervals_.back().first <= id) {
    return intervals_.end() - (intervals_.back().last >= id ? 1 : 0);
  }
  return std::lower_bound(intervals_.begin(), intervals_.end(), id,
                          [](const Interval& held, uint64_t wanted) { return held.last < wanted; });
}

bool AppliedSet::Contains(uint64_t id) const {
  if (id < watermark_) return true;
  const auto found = EndingFrom(id);
  return found != intervals_.end() && found->first <= id;
}

absl::StatusOr<bool> AppliedSet::Insert(uint64_t id) {
  const InvariantsAfter check(*this);
  if (Contains(id)) return false;
  // No interval contains the id, so `after` is the first interval whose ids are all higher than the
  // id.
  const auto after = intervals_.begin() + (EndingFrom(id) - intervals_.cbegin());
  const bool joins_after = after != intervals_.end() && after->first - id == 1;
  // The id directly follows the interval before it and extends this interval. If the id also closes
  // the gap to the next interval, the two intervals become one.
  if (after != intervals_.begin() && id - (after - 1)->last == 1) {
    (after - 1)->last = joins_after ? after->last : id;
    if (joins_after) intervals_.erase(after);
    return true;
  }
  if (joins_after) {
    after->first = id;
    return true;
  }
  // The id is adjacent to no interval and needs a new one. The limit is checked only here, because
  // extending an interval needs no room.
  if (intervals_.size() >= intervals_max_) {
    return MakeError(absl::StatusCode::kResourceExhausted,
                     absl::StrCat("the slice remembers ", intervals_.size(),
                                  " intervals of closures, the most it may; they go when the ",
                                  "watermark (", watermark_, ") rises"),
                     proto::TRANSIENT);
  }
  intervals_.insert(after, {id, id});
  return true;
}

void AppliedSet::RaiseWatermark(uint64_t watermark) {
  const InvariantsAfter check(*this);
  if (watermark <= watermark_) return;
  watermark_ = watermark;
  // Intervals that lie below the watermark are dropped. An interval that contains the watermark
  // keeps its upper part.
  intervals_.erase(intervals_.cbegin(), EndingFrom(watermark));
  if (!intervals_.empty()) {
    intervals_.front().first = std::max(intervals_.front().first, watermark);
  }
}

void AppliedSet::CheckInvariants() const {
  COHORT_CHECK(intervals_.size() <= intervals_max_, "at most intervals_max_ intervals are kept");
  if (intervals_.size() > kInvariantWalkMax) return;
  for (size_t i = 0; i < intervals_.size(); ++i) {
    const Interval& each = intervals_[i];
    COHORT_CHECK(each.first >= watermark_ && each.first <= each.last,
                 "intervals lie above the watermark");
    COHORT_CHECK(
        i == 0 || (each.first > intervals_[i - 1].last && each.first - intervals_[i - 1].last > 1),
        "intervals ascend and do not touch");
  }
}

}  // namespace cohort
