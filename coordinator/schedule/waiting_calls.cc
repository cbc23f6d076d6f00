#include "coordinator/schedule/waiting_calls.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/check.h"

namespace cohort {

template <typename Call>
Call WaitingCalls::TakeFirst(std::map<uint64_t, Call>& calls) {
  COHORT_CHECK(!calls.empty(), "at least one call waits");
  Call call = std::move(calls.begin()->second);
  calls.erase(calls.begin());
  return call;
}

template <typename Call>
WaitId WaitingCalls::Add(std::map<uint64_t, Call>& calls, Call call) {
  // The ids of all kinds of waiting calls come from one counter, so Remove() needs only the id.
  calls.emplace(++last_id_, std::move(call));
  return WaitId{last_id_};
}

WaitId WaitingCalls::AddSchedule(Admission admission) {
  return Add(schedules_, std::move(admission));
}

WaitId WaitingCalls::AddJoin(Done done) { return Add(joins_, std::move(done)); }

WaitId WaitingCalls::AddDone(Done done) { return Add(dones_, std::move(done)); }

bool WaitingCalls::Remove(WaitId id) {
  return schedules_.erase(id.value) + joins_.erase(id.value) + dones_.erase(id.value) > 0;
}

WaitingCalls::Admission WaitingCalls::TakeSchedule() { return TakeFirst(schedules_); }

std::vector<WaitingCalls::Done> WaitingCalls::TakeJoins() {
  std::vector<Done> taken;
  while (!joins_.empty()) taken.push_back(TakeFirst(joins_));
  return taken;
}

std::vector<WaitingCalls::Done> WaitingCalls::TakeDones() {
  std::vector<Done> taken;
  while (!dones_.empty()) taken.push_back(TakeFirst(dones_));
  return taken;
}

WaitingCalls::Admission WaitingCalls::TakeObserver() {
  // One call gets the error: a Done if one waits, else a Join, else a Schedule.
  if (!dones_.empty()) return {nullptr, TakeFirst(dones_)};
  if (!joins_.empty()) return {nullptr, TakeFirst(joins_)};
  return TakeFirst(schedules_);
}

std::string WaitingCalls::ToString() const {
  std::string text;
  const auto add = [&](size_t count, absl::string_view name) {
    if (count > 0) absl::StrAppend(&text, text.empty() ? "" : ", ", count, " ", name);
  };
  add(joins_.size(), "Join");
  add(dones_.size(), "Done");
  add(schedules_.size(), "Schedule");
  return text.empty() ? "none" : text;
}

}  // namespace cohort
