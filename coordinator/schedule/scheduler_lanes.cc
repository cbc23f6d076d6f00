// Which workers run the next closure: the one with the most room, or, of a gang, all of them. A
// gang that waits for room is the front of the queue, so that nothing takes a slot before it.

#include <algorithm>
#include <utility>

#include "coordinator/schedule/gang_channel.h"
#include "coordinator/schedule/scheduler.h"

namespace cohort {

namespace {

// Sessions of generations, above all sessions of lanes: a generation ends as a whole.
constexpr uint64_t kGangSession = uint64_t{1} << 63;

}  // namespace

std::vector<int> Scheduler::LanesForFrontLocked() {
  if (options_.gang_size > 1 && queue_.Front()->gang) return GangLanesLocked();
  const Lane* best = nullptr;
  int worker = -1;
  const absl::Time now = clock_.Now();
  const auto consider = [&](int index, const Lane& lane) {
    if (!lane.ready || lane.in_flight >= options_.closures_in_flight) return;
    if (lane.hold_until > now) return;
    if (best != nullptr && lane.in_flight >= best->in_flight) return;
    best = &lane;
    worker = index;
  };
  // Ties go round: the search starts behind the lane that was served last.
  for (auto it = lanes_.upper_bound(last_lane_); it != lanes_.end(); ++it) {
    consider(it->first, it->second);
  }
  for (auto it = lanes_.begin(); it != lanes_.end() && it->first <= last_lane_; ++it) {
    consider(it->first, it->second);
  }
  if (best == nullptr) return {};
  last_lane_ = worker;
  return {worker};
}

std::vector<int> Scheduler::GangLanesLocked() const {
  std::vector<int> workers;
  const absl::Time now = clock_.Now();
  for (const auto& [worker, lane] : lanes_) {
    const bool has_room = lane.ready && lane.on_drained.empty() && lane.hold_until <= now &&
                          lane.in_flight < options_.closures_in_flight;
    if (!has_room) return {};  // all or none
    workers.push_back(worker);
  }
  if (static_cast<int>(workers.size()) < options_.gang_size) return {};
  return workers;
}

LaneRun Scheduler::TakeFrontLocked(const std::vector<int>& workers) {
  Run run;
  run.closure = queue_.Take();
  run.attempt = run.closure->attempt;
  if (run.closure->gang) run.gang = gangs_.Send(run.closure->id);
  const bool alone = workers.size() == 1;
  for (const int worker : workers) {
    Lane& lane = lanes_[worker];
    ++lane.in_flight;
    run.members.push_back({worker, lane.session, lane.task, lane.channel});
    if (alone) continue;
    proto::Peer& member = *run.gang.add_members();
    *member.mutable_task() = lane.task;
    member.set_address(lane.address);
  }
  run.session = kGangSession | run.gang.generation();
  run.channel = std::make_shared<GangChannel>(run.members);
  if (alone) {
    run.session = run.members.front().session;
    run.channel = run.members.front().channel;
  } else {
    run.gang.set_shared_memory(options_.shared_memory);
  }
  in_flight_[run.closure->id] = run;
  rounds_.Begin(*run.closure);
  for (std::string& key : ResourceCatalog::KeysFor(*run.closure)) {
    const bool there = std::all_of(workers.begin(), workers.end(), [&](int worker) {
      return lanes_[worker].prepared.count(key) > 0;
    });
    if (!there) run.missing.push_back(std::move(key));
  }
  return run;
}

void Scheduler::SuspectLocked(const Run& run, const absl::Status& status, Effects& effects) {
  const GangMember* const at_fault = run.AtFault(status);
  for (const GangMember& member : run.members) {
    if (at_fault != nullptr && at_fault != &member) continue;
    Lane& lane = lanes_[member.worker];
    // What began before the worker was lost and came back says nothing of it now.
    if (lane.session != member.session || !lane.ready) continue;
    lane.ready = false;
    if (!options_.on_suspect) continue;
    effects.push_back([self = shared_from_this(), worker = member.worker,
                       incarnation = member.task.incarnation()] {
      self->options_.on_suspect(worker, incarnation);
    });
  }
}

}  // namespace cohort
