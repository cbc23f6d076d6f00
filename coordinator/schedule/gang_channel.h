#pragma once

// A channel that presents the members of a gang as one worker. A call goes to all members, and is
// answered when each member has answered or is lost. The answer is that of the first member with an
// answer, or else the error that says most: first what is wrong with the program, then which worker
// was lost, and last that a member was told of another member's failure. When a member fails to run
// a closure, the channel tells the other members to end the gang (EndGangs), because they may wait
// for the failed member.
//
// A member is out of step if its progress is unknown: its call broke, or it has lost its variables.
// Suppose that member A has answered, and that member B, which has done fewer steps, reports A as
// lost. Before A's answer counts, the channel asks A with EndGangs whether A is still there:
// otherwise a step that only A made would put all other members out of step with a process that is
// gone. Among the remaining members, a member that has done fewer steps than another one is out of
// step as well. So all members in step have done the same closures and, of a closure with several
// steps, the same steps. The answer is that of the first member in step, for all steps or for the
// steps that are done.

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "common/base/mutex.h"
#include "common/wire/transport.h"
#include "coordinator/schedule/worker_run.h"

namespace cohort {

// Thread-safe.
class GangChannel final : public Channel {
 public:
  // Callback that gets the members that are out of step. Runs before the call is answered; must not
  // block.
  using OutOfStep = std::function<void(const std::set<int>& workers, const absl::Status& cause)>;
  GangChannel(std::vector<GangMember> members, OutOfStep out_of_step);
  ~GangChannel() override;

  // Starts the call on all members. Calls are not cancelled, so the returned handle is null.
  std::unique_ptr<Call> Start(absl::string_view method, Message request, absl::Duration timeout,
                              Reply done) override;
  // Stops waiting for answers of this member, in calls under way and in later ones.
  void Lose(int worker, const absl::Status& cause);
  // Keeps later answers from putting members out of step.
  void Retire() { fate_->retired.store(true); }
  // Returns the members that did not answer RunClosure themselves, because the call to the member
  // broke or the member was lost.
  std::set<int> Unanswered() const;
  // Returns the members of Unanswered() whose own call broke, before anybody reported them as lost.
  std::set<int> Broken() const;

 private:
  class GangCall;

  const std::vector<GangMember> members_;  // the members of the gang, at least one, by rank
  // State shared with the channel's calls, which may outlive the channel.
  struct Fate {
    std::atomic<bool> retired{false};
    Mutex mutex;
    std::set<int> unanswered ABSL_GUARDED_BY(mutex);
    std::set<int> broken ABSL_GUARDED_BY(mutex);
  };
  const std::shared_ptr<Fate> fate_ = std::make_shared<Fate>();
  const OutOfStep out_of_step_;  // does nothing once the channel is retired
  Mutex mutex_;
  // Each call is kept alive by the callbacks of its answers.
  std::vector<std::weak_ptr<GangCall>> calls_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::pair<int, absl::Status>> lost_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace cohort
