#pragma once

// The members of a gang as one worker: a call goes to all of them, and is answered when all have
// answered, with the answer of the first one. Or with an error, of which one of its members had the
// most to say: what is wrong with the program, then who was lost, and at last that a member was
// told of another's failure. When a member fails to run a closure, the others are told to end what
// they run with it (EndGangs): they may wait for it.

#include <memory>
#include <string>
#include <vector>

#include "common/wire/transport.h"
#include "coordinator/schedule/worker_lane.h"

namespace cohort {

// Thread-safe.
class GangChannel final : public Channel {
 public:
  explicit GangChannel(std::vector<GangMember> members) : members_(std::move(members)) {}

  // Calls are not cancelled: the handle is null.
  std::unique_ptr<Call> Start(absl::string_view method, Message request, absl::Duration timeout,
                              Reply done) override;

 private:
  const std::vector<GangMember> members_;  // at least one, by rank
};

}  // namespace cohort
