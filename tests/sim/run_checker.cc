#include "tests/sim/run_checker.h"

#include <algorithm>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "proto/worker.pb.h"

namespace cohort {

namespace {

bool IsRun(const SimMessage& message) { return absl::EndsWith(message.method, "/RunClosure"); }

proto::RunClosureRequest Parse(const SimMessage& message) {
  proto::RunClosureRequest request;
  COHORT_CHECK(request.ParseFromString(message.request), "a message that production code made");
  return request;
}

}  // namespace

void RunChecker::OnRequest(const SimMessage& message) {
  if (!IsRun(message)) return;
  const proto::RunClosureRequest request = Parse(message);
  const auto running = running_.find({message.from, request.closure_id()});
  if (running == running_.end()) return;
  for (const Attempt& attempt : running->second) {
    // What is of another epoch is refused for that.
    if (attempt.epoch != request.epoch() || attempt.number == request.attempt()) continue;
    if (options_.is_fenced(attempt.epoch, attempt.session)) continue;
    options_.violate(absl::StrCat(
        message.from, " starts attempt ", request.attempt(), " of closure ", request.closure_id(),
        " on ", message.to, " while attempt ", attempt.number, " may still push from ",
        attempt.worker, ": its session ", attempt.session, " is not fenced everywhere"));
  }
}

void RunChecker::OnArrival(const SimMessage& message) {
  if (!IsRun(message)) return;
  const proto::RunClosureRequest request = Parse(message);
  const Closure closure(message.from, request.closure_id());
  // A copy that comes late: nobody knows of it.
  if (answered_.count({closure, request.attempt()}) > 0) return;
  running_[closure].push_back({request.epoch(), request.attempt(), request.session(), message.to});
}

void RunChecker::OnResponse(const SimMessage& message) {
  if (!IsRun(message)) return;
  const proto::RunClosureRequest request = Parse(message);
  const Closure closure(message.from, request.closure_id());
  answered_.insert({closure, request.attempt()});
  std::vector<Attempt>& running = running_[closure];
  running.erase(
      std::remove_if(running.begin(), running.end(),
                     [&](const Attempt& attempt) { return attempt.number == request.attempt(); }),
      running.end());
}

}  // namespace cohort
