#pragma once

// Watches from outside what workers that train together do:
//
//   all members of a gang get the same request, and whoever ends it has read the value that is
//   behind the step before it, with all of its examples in the sum, each once;
//   when a generation is aborted, all ranks say the same cause;
//   at the end no call waits at a worker but those which last as long as their group.

#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "common/base/clock.h"
#include "proto/collective.pb.h"
#include "proto/worker.pb.h"
#include "tests/sim/gang_job.h"
#include "tests/support/network/sim_transport.h"

namespace cohort {

// Lives on the world's thread.
class GangChecker {
 public:
  struct Counts {
    uint64_t answers = 0;   // of steps, by one member each
    uint64_t attempts = 0;  // of steps
    uint64_t causes = 0;    // that were compared with another rank's
    uint64_t parts = 0;     // answers of some of a closure's steps
  };
  GangChecker(const Clock& clock, const GangPlan& plan,
              std::function<void(const std::string& what)> violate)
      : clock_(clock), plan_(plan), violate_(std::move(violate)) {}

  // `fate` is what will become of the message.
  void OnRequest(const SimMessage& message, const SimFate& fate);
  void OnArrival(const SimMessage& message);
  void OnResponse(const SimMessage& message, const SimFate& fate);
  // The process is gone, and what waited there.
  void OnKill(const std::string& host);
  // Links are cut, or hosts stand still, so long: ranks may not hear of each other's causes.
  void OnDisturbance(absl::Duration duration);
  // Everything has been quiet for a while.
  void CheckEnd();
  const Counts& counts() const { return counts_; }

 private:
  using Generation = std::pair<std::string, uint64_t>;  // coordinator's host, number
  using Group = std::pair<uint64_t, uint64_t>;          // hash of its name, generation

  void CheckAnswer(const SimMessage& message, const proto::RunClosureRequest& request);
  void CheckCause(const SimMessage& message, const proto::RunClosureRequest& request,
                  absl::string_view text);
  void OnAbortGroup(const SimMessage& message, const SimFate& fate);
  void OnGang(const SimMessage& message, const proto::Gang& gang);

  const Clock& clock_;
  const GangPlan& plan_;
  const std::function<void(const std::string& what)> violate_;
  Counts counts_;
  std::map<std::tuple<std::string, uint64_t, uint32_t>, uint64_t> requests_;  // hash
  std::map<Generation, std::string> causes_;
  std::map<Generation, std::set<std::string>> said_;  // by whom
  std::set<uint64_t> disturbed_;           // generations whose ranks may say different causes
  std::map<uint64_t, absl::Time> aborts_;  // when ranks of a generation talked about it last
  absl::Time disturbed_until_ = absl::InfinitePast();
  // What a worker knows of groups, and who waits there.
  struct Host {
    std::string coordinator;                 // that has attached it last
    uint64_t incarnation = 0;                // of it
    std::map<std::string, uint64_t> newest;  // generation that it was told of, by coordinator
    std::map<std::string, int64_t> open;     // by method
    std::map<std::pair<std::string, Group>, int64_t> open_calls;  // of groups
  };
  std::map<std::string, Host> hosts_;
};

}  // namespace cohort
