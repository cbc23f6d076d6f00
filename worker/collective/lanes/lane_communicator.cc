#include "worker/collective/lanes/lane_communicator.h"

#include <utility>

#include "worker/collective/lanes/lane_group.h"

namespace cohort {

LaneCommunicator::LaneCommunicator(Clock& clock, Executor& executor,
                                   std::shared_ptr<FrameRouter> router,
                                   std::unique_ptr<PeerLinks> links, LaneGroupOptions options)
    : router_(std::move(router)),
      group_(std::make_shared<LaneGroup>(clock, executor, std::move(links), std::move(options))) {
  router_->Add(group_->options().name, group_);
  group_->WatchAll();
}

LaneCommunicator::~LaneCommunicator() {
  router_->Remove(group_->options().name);
  group_->Leave();
}

int LaneCommunicator::rank() const { return group_->options().rank; }
int LaneCommunicator::size() const { return group_->options().size; }

absl::StatusOr<std::shared_ptr<Buffer>> LaneCommunicator::Allocate(size_t bytes) {
  return Buffer::Allocate(bytes);
}

void LaneCommunicator::Start(CollectiveCall call, Done done) {
  group_->Start(std::move(call), LaneGroup::Carries::kElements, std::move(done));
}

void LaneCommunicator::Agree(CollectiveCall call, Done agreed) {
  group_->Start(std::move(call), LaneGroup::Carries::kNothing, std::move(agreed));
}

void LaneCommunicator::WhenAborted(Done aborted) { group_->WhenAborted(std::move(aborted)); }

void LaneCommunicator::Abort(absl::Status root_cause) { group_->Abort(std::move(root_cause)); }

std::shared_ptr<const FlightRecorder> LaneCommunicator::recorder() const {
  return group_->recorder();
}
LaneCounters LaneCommunicator::counters() const { return group_->counters(); }

}  // namespace cohort
