#pragma once

// The members of a gang as one worker: a call goes to all of them, and is answered when all have
// answered or are lost, with the answer of the first that has one. Or with an error, the one that
// says most: what is wrong with the program, then who was lost, and at last that a member was told
// of another's failure. When a member fails to run a closure, the others are told to end what they
// run with it (EndGangs): they may wait for it.
//
// A member is out of step if nobody knows how far it came: its call broke, or it has lost its
// variables. One that has answered, and is lost, says one that came less far, is asked whether it
// is still there (EndGangs, too) before its answer counts: a step that it alone had made would put
// all others out of step with a process that is gone. Of the others, one that came less far than
// another is out of step as well. So those that are in step have done the same closures, and of one
// of several steps the same steps: the answer is that of the first of them, of all steps or of
// those that are done.

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
#include "coordinator/schedule/worker_slots.h"

namespace cohort {

// Thread-safe.
class GangChannel final : public Channel {
 public:
  // Tells the members that are out of step, before the call is answered; must not block.
  using OutOfStep = std::function<void(const std::set<int>& workers, const absl::Status& cause)>;
  GangChannel(std::vector<GangMember> members, OutOfStep out_of_step);
  ~GangChannel() override;

  // Calls are not cancelled: the handle is null.
  std::unique_ptr<Call> Start(absl::string_view method, Message request, absl::Duration timeout,
                              Reply done) override;
  // Stops waiting for the member's answers, now and later.
  void Lose(int worker, const absl::Status& cause);
  // Keeps later answers from putting members out of step.
  void Retire() { fate_->retired.store(true); }
  // Returns the members that did not answer RunClosure themselves: the call to them broke, or they
  // were lost.
  std::set<int> Unanswered() const;
  // Returns those of them to which the call broke: nobody has said before that they are lost.
  std::set<int> Broken() const;

 private:
  class GangCall;

  const std::vector<GangMember> members_;  // at least one, by rank
  // Shared with its calls, which may outlive it.
  struct Fate {
    std::atomic<bool> retired{false};
    Mutex mutex;
    std::set<int> unanswered ABSL_GUARDED_BY(mutex);
    std::set<int> broken ABSL_GUARDED_BY(mutex);
  };
  const std::shared_ptr<Fate> fate_ = std::make_shared<Fate>();
  const OutOfStep out_of_step_;  // unless it is retired
  Mutex mutex_;
  std::vector<std::weak_ptr<GangCall>> calls_ ABSL_GUARDED_BY(mutex_);  // held by their answers
  std::vector<std::pair<int, absl::Status>> lost_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace cohort
