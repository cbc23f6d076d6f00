// A gang's closure waits for its turn, and for the other members.

#include <utility>

#include "common/wire/error_detail.h"
#include "worker/step/closure_run.h"

namespace cohort {

void ClosureRun::AwaitTurn() {
  if (!IsGang()) return StartPulls();
  EndAtDeadline();
  parts_->gangs.Wait(header_.gang(), [self = shared_from_this()](absl::Status refused) {
    if (!refused.ok()) return self->PartReady(refused);
    self->JoinGroup();
  });
}

// Another gang, or another member, may never come: a gang waits as long as anybody waits for it.
void ClosureRun::EndAtDeadline() {
  if (deadline_ == absl::InfiniteFuture()) return;
  deadline_timer_ = parts_->world.clock.CallAt(
      deadline_, [parts = parts_, gang = header_.gang()] {
        parts->groups->End(gang, MakeError(absl::StatusCode::kDeadlineExceeded,
                                           "nobody waits for this synchronous step any more",
                                           proto::TRANSIENT));
        parts->gangs.End(gang, /*ended_well=*/false);
      });
}

void ClosureRun::JoinGroup() {
  parts_->groups->Join(header_.gang(), [self = shared_from_this()](
                                           absl::StatusOr<std::shared_ptr<GangGroup>> group) {
    if (!group.ok()) return self->PartReady(group.status());
    self->group_ = *std::move(group);
    if (self->program_->pulls.empty()) return self->PartReady(absl::OkStatus());
    self->StartPulls();
  });
}

}  // namespace cohort
