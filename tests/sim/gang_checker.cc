#include "tests/sim/gang_checker.h"

#include <algorithm>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "common/base/rng.h"
#include "common/wire/error_detail.h"
#include "proto/collective.pb.h"
#include "proto/task.pb.h"
#include "worker/collective/lanes/late_answers.h"
#include "worker/collective/lanes/wire_lanes.h"

namespace cohort {

namespace {

// Ranks talk about a cause for half a second; a process that is busy takes longer.
constexpr absl::Duration kAgreement = absl::Seconds(1);
constexpr char kWasAborted[] = " was aborted: ";
// What a rank adds to the cause is its own.
constexpr char kBesides[] = "; besides, ";
constexpr char kDeliver[] = "/Deliver";
constexpr char kMayWait[] = " that may wait, of rank ";

bool Is(const SimMessage& message, absl::string_view method) {
  return absl::EndsWith(message.method, method);
}

template <typename Request>
Request Parse(const SimMessage& message) {
  Request request;
  COHORT_CHECK(request.ParseFromString(message.request), "a message that production code made");
  return request;
}

// A call of one member of a group to another.
bool IsOfGroup(const SimMessage& message) {
  return absl::StrContains(message.method, "CollectiveService/");
}

// Requests of all of these begin with who sends them.
std::pair<uint64_t, uint64_t> GroupOf(const SimMessage& message) {
  const auto request = Parse<proto::WatchGroupRequest>(message);
  return {request.from().group(), request.from().generation()};
}

// Frames whose answers may wait are counted by sender.
std::string NameOfCall(const SimMessage& message) {
  std::string name(message.method);
  if (!Is(message, kDeliver)) return name;
  const auto request = Parse<proto::DeliverRequest>(message);
  if (request.answer_may_wait()) absl::StrAppend(&name, kMayWait, request.from().rank());
  return name;
}

}  // namespace

void GangChecker::OnRequest(const SimMessage& message, const SimFate& fate) {
  if (Is(message, "/AbortGroup")) return OnAbortGroup(message, fate);
  if (!Is(message, "/RunClosure")) return;
  const auto request = Parse<proto::RunClosureRequest>(message);
  if (!request.has_gang()) return;
  const uint64_t hash = StableHash(message.request);
  const auto [known, first] =
      requests_.emplace(std::tuple(message.from, request.closure_id(), request.attempt()), hash);
  if (first) ++counts_.attempts;
  if (known->second != hash) {
    violate_(absl::StrCat("members of the gang of closure ", request.closure_id(), ", attempt ",
                          request.attempt(), " are sent different requests"));
  }
  const auto& members = request.gang().members();
  const bool is_member =
      members.empty() || std::any_of(members.begin(), members.end(), [&](const auto& member) {
        return message.to.empty() || absl::StrCat("worker:", member.task().index()) == message.to;
      });
  if (!is_member) violate_(absl::StrCat(message.to, " is sent a gang of others"));
}

void GangChecker::OnArrival(const SimMessage& message) {
  Host& host = hosts_[message.to];
  if (Is(message, "/Watch")) return;
  if (IsOfGroup(message)) {
    ++host.open_calls[{NameOfCall(message), GroupOf(message)}];
    return;
  }
  ++host.open[std::string(message.method)];
}

void GangChecker::OnGang(const SimMessage& message, const proto::Gang& gang) {
  // Who is told by a coordinator that it does not know is not told.
  const bool refused = ClassOf(message.response->status()) == proto::STALE;
  if (gang.members_size() <= 1 || refused) return;
  uint64_t& newest = hosts_[message.to].newest[message.from];
  newest = std::max(newest, gang.generation());
}

void GangChecker::OnResponse(const SimMessage& message, const SimFate& fate) {
  Host& host = hosts_[message.to];
  if (Is(message, "/Watch")) return;
  if (IsOfGroup(message)) {
    --host.open_calls[{NameOfCall(message), GroupOf(message)}];
  } else {
    --host.open[std::string(message.method)];
  }
  if (Is(message, "/Attach") && message.response->ok()) {
    host.coordinator = message.from;
    host.incarnation = Parse<proto::AttachRequest>(message).coordinator_incarnation();
  }
  if (Is(message, "/AbortGroup")) return OnAbortGroup(message, fate);
  if (Is(message, "/EndGangs")) OnGang(message, Parse<proto::EndGangsRequest>(message).gang());
  if (!Is(message, "/RunClosure")) return;
  const auto request = Parse<proto::RunClosureRequest>(message);
  OnGang(message, request.gang());
  if (message.response->ok()) {
    CheckAnswer(message, request);
  } else if (request.has_gang()) {
    CheckCause(message, request, message.response->status().message());
  }
}

void GangChecker::CheckAnswer(const SimMessage& message, const proto::RunClosureRequest& request) {
  proto::RunClosureResponse answer;
  COHORT_CHECK(answer.ParseFromString((*message.response)->header), "what a worker made");
  if (answer.has_failure()) CheckCause(message, request, answer.failure().message());
  if (answer.fetches().empty()) return;  // nobody holds the result any more
  const auto fetched = ReadTensors(answer.fetches(), (*message.response)->payload);
  COHORT_CHECK(fetched.ok(), "what a worker made");
  std::string wrong;
  if (request.has_gang()) {
    ++counts_.answers;
    const int members = std::max(request.gang().members_size(), 1);
    const uint64_t steps = answer.has_failure()
                               ? answer.failure().steps_done()
                               : 1 + static_cast<uint64_t>(request.later_steps_size());
    if (answer.has_failure()) ++counts_.parts;
    wrong = CheckSteps(plan_, request.closure_id(), steps, *fetched, members);
  } else if (plan_.Of(request.closure_id()) == GangPlan::Item::kLook) {
    wrong = CheckLook(plan_, *fetched);
  }
  if (wrong.empty()) return;
  violate_(absl::StrCat(message.to, " of ", message.from, ", generation ",
                        request.gang().generation(), ", closure ", request.closure_id(),
                        ", attempt ", request.attempt(), ": ", wrong));
}

void GangChecker::CheckCause(const SimMessage& message, const proto::RunClosureRequest& request,
                             absl::string_view text) {
  const size_t found = text.find(kWasAborted);
  if (found == absl::string_view::npos) return;
  absl::string_view cause = text.substr(found + sizeof(kWasAborted) - 1);
  cause = cause.substr(0, cause.find(kBesides));
  const Generation generation(message.from, request.gang().generation());
  const auto [known, first] = causes_.emplace(generation, std::string(cause));
  if (said_[generation].insert(message.to).second && !first) ++counts_.causes;
  if (known->second == cause || disturbed_.count(generation.second) > 0) return;
  violate_(absl::StrCat("generation ", generation.second, " of ", message.from,
                        " was aborted because '", known->second, "', and ", message.to,
                        " says because '", cause, "'"));
}

void GangChecker::OnAbortGroup(const SimMessage& message, const SimFate& fate) {
  const uint64_t generation = Parse<proto::AbortGroupRequest>(message).from().generation();
  aborts_[generation] = clock_.Now();
  if (fate.lose || fate.delay > absl::ZeroDuration() ||
      clock_.Now() < disturbed_until_ + kAgreement) {
    disturbed_.insert(generation);
  }
}

void GangChecker::OnDisturbance(absl::Duration duration) {
  disturbed_until_ = std::max(disturbed_until_, clock_.Now() + duration);
  for (const auto& [generation, last] : aborts_) {
    if (clock_.Now() < last + kAgreement) disturbed_.insert(generation);
  }
}

void GangChecker::OnKill(const std::string& host) { hosts_.erase(host); }

void GangChecker::CheckEnd() {
  for (const auto& [name, host] : hosts_) {
    for (const auto& [method, open] : host.open) {
      if (open == 0) continue;
      violate_(absl::StrCat(open, " calls of ", method, " still wait at ", name));
    }
    const uint64_t present = GroupHash({absl::StrCat("workers/", absl::Hex(host.incarnation)), 0});
    const auto told = host.newest.find(host.coordinator);
    const uint64_t newest = told == host.newest.end() ? 0 : told->second;
    for (const auto& [call, open] : host.open_calls) {
      const auto& [method, group] = call;
      // What it was not told of may still come. The last group lasts, and so does who watches it,
      // and an answer that waits for those to later frames.
      const bool to_come = group.first == present && group.second > newest;
      const bool late = absl::StrContains(method, kMayWait) &&
                        open < static_cast<int64_t>(LateAnswers::kFramesToAnswer);
      const bool last =
          group == Group(present, newest) && (absl::EndsWith(method, "/WatchGroup") || late);
      if (open == 0 || to_come || last) continue;
      violate_(absl::StrCat(open, " calls of ", method, " of generation ", group.second,
                            " still wait at ", name, ", whose newest one is ", newest,
                            group.first == present ? "" : " of another coordinator"));
    }
  }
}

}  // namespace cohort
