#include "tests/support/world/sim_world.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/invariants.h"

namespace cohort {

namespace {
constexpr int64_t kStartUnixSeconds = 1'700'000'000;
}  // namespace

SimWorld::SimWorld(uint64_t seed)
    : seed_(seed),
      rng_(seed),
      now_(absl::FromUnixSeconds(kStartUnixSeconds)),
      trace_hash_(Mix64(seed)) {
  CheckInvariantsFromNowOn();
}

SimWorld::~SimWorld() {
  // A task's end may queue another (a reply that is dropped unsent), which is dropped in turn.
  while (!queue_.empty()) {
    key_of_.erase(std::get<2>(queue_.begin()->first));
    const auto dropped = queue_.extract(queue_.begin());
  }
}

uint64_t SimWorld::Add(absl::Time when, Task task) {
  const uint64_t id = ++last_id_;
  const Key key(std::max(when, now_), rng_.Next(), id);
  queue_.emplace(key, std::move(task));
  key_of_.emplace(id, key);
  return id;
}

TimerId SimWorld::CallAt(absl::Time when, Task task) { return {Add(when, std::move(task))}; }

void SimWorld::Run(Task task) { Add(now_, std::move(task)); }

bool SimWorld::Cancel(TimerId timer) {
  const auto found = key_of_.find(timer.value);
  if (found == key_of_.end()) return false;
  const auto cancelled = queue_.extract(found->second);  // dies last: a task may own anything
  key_of_.erase(found);
  return true;
}

bool SimWorld::Step() {
  if (queue_.empty()) return false;
  auto event = queue_.extract(queue_.begin());
  const auto [when, tie, id] = event.key();
  key_of_.erase(id);
  now_ = when;
  ++events_run_;
  trace_hash_ = Mix64(trace_hash_ ^ Mix64(static_cast<uint64_t>(absl::ToUnixNanos(when))) ^ id);
  event.mapped()();
  return true;
}

bool SimWorld::RunUntil(absl::FunctionRef<bool()> holds, absl::Duration limit) {
  const absl::Time end = now_ + limit;
  while (!holds()) {
    if (queue_.empty() || std::get<0>(queue_.begin()->first) > end) {
      if (end != absl::InfiniteFuture()) now_ = std::max(now_, end);
      return false;
    }
    Step();
  }
  return true;
}

void SimWorld::RunFor(absl::Duration duration) {
  RunUntil([] { return false; }, duration);
}

void SimWorld::Trace(absl::string_view event) {
  trace_hash_ = Mix64(trace_hash_ ^ StableHash(event));
  if (trace_sink_) {
    trace_sink_(absl::StrCat(absl::ToUnixMicros(now_) - kStartUnixSeconds * 1'000'000, " ", event));
  }
}

}  // namespace cohort
