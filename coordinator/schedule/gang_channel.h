#pragma once

// A channel that presents the members of a gang as one worker. A call goes to all members, and ends
// when each member has answered or is lost. When a member fails to run a closure, the channel tells
// the other members to end the gang (EndGangs), because they may wait for the failed member.
//
// The channel decides which members are in step, that is, have done the same closures and the same
// steps of the last closure. A member is out of step if its progress is unknown (its call broke),
// or if it has lost its variables. Of the other members, those that have done the most steps are in
// step. Suppose that member A has answered, and that member B, which has done fewer steps, reports
// A as lost. Before A's answer counts, the channel asks A with EndGangs whether A is still there:
// if A's process were gone and its answer counted, all other members would be out of step.
//
// The channel's answer is that of the first member in step, for all steps or for the steps that are
// done. If no member has done a step, the answer is the error that says most: an error of the
// program before the loss of a worker, and last that a member was told of another member's failure.

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

// The channel to the members of one gang. Thread-safe.
class GangChannel final : public Channel {
 public:
  // Callback that gets the members that are out of step. Runs before the call is answered. Must not
  // block.
  using OutOfStep = std::function<void(const std::set<int>& workers, const absl::Status& cause)>;
  GangChannel(std::vector<GangMember> members, OutOfStep out_of_step);
  ~GangChannel() override;

  // Starts the call on all members. Calls cannot be cancelled, so the returned handle is null.
  std::unique_ptr<Call> Start(absl::string_view method, Message request, absl::Duration timeout,
                              Reply done) override;
  // Ends the waiting for answers of this member, in calls under way and in later calls. `cause` is
  // recorded as the member's error.
  void Lose(int worker, const absl::Status& cause);
  // Makes the channel report no more members as out of step, whatever they answer from now on.
  void Retire() { fate_->retired.store(true); }
  // Returns the members that did not answer a RunClosure call themselves: the call to the member
  // broke, or the member was reported as lost.
  std::set<int> Unanswered() const;
  // Returns those members of Unanswered() whose own RunClosure call broke, before the scheduler
  // reported them as lost.
  std::set<int> Broken() const;

 private:
  class GangCall;

  const std::vector<GangMember> members_;  // the gang's members by rank; at least one
  // The part of this channel's state that its calls share, because the calls may outlive the
  // channel.
  struct Fate {
    std::atomic<bool> retired{false};
    Mutex mutex;
    std::set<int> unanswered ABSL_GUARDED_BY(mutex);
    std::set<int> broken ABSL_GUARDED_BY(mutex);
  };
  const std::shared_ptr<Fate> fate_ = std::make_shared<Fate>();
  const OutOfStep out_of_step_;  // the callback; does nothing once the channel is retired
  Mutex mutex_;
  // The calls under way. Each is kept alive by the callbacks of its answers.
  std::vector<std::weak_ptr<GangCall>> calls_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::pair<int, absl::Status>> lost_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace cohort
