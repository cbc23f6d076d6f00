// The choice of the workers for the next closure: the worker with the most room or, for a gang, all
// workers that are in step. A gang that waits for room stays at the front of the queue, so that no
// other closure takes a slot before the gang.

#include <algorithm>
#include <utility>

#include "common/wire/error_detail.h"
#include "coordinator/schedule/gang_channel.h"
#include "coordinator/schedule/scheduler.h"

namespace cohort {

std::vector<int> Scheduler::WorkersForFrontLocked() {
  const absl::Time now = clock_.Now();
  const auto may = [&](int worker) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return gangs_.IsInStep(worker) && !gangs_.IsIdle(worker);
  };
  if (options_.gang_size > 1 && queue_.Front()->gang) {
    std::vector<int> workers;
    for (const int worker : gangs_.members()) {
      if (!gangs_.IsInStep(worker)) continue;
      // A gang runs on all members or on none.
      if (!slots_.HasRoom(worker, now) || !may(worker)) return {};
      workers.push_back(worker);
    }
    // With too few members in step the gang waits for others to come back.
    const bool are_enough = workers.size() >= static_cast<size_t>(options_.gang_min);
    return are_enough ? workers : std::vector<int>();
  }
  const int chosen = slots_.Choose(now, may);
  return chosen < 0 ? std::vector<int>() : std::vector<int>{chosen};
}

WorkerRun Scheduler::TakeFrontLocked(const std::vector<int>& workers) {
  Run run;
  run.closure = queue_.Take();
  // The run keeps its attempt: IsCurrentLocked compares it to tell this run from later ones.
  run.attempt = run.closure->attempt;
  run.first_step = run.closure->steps_done;
  // The time of the first sending is kept for every later run of the closure.
  if (run.closure->time == absl::InfinitePast()) run.closure->time = clock_.Now();
  if (run.closure->gang) run.gang = gangs_.Send(run.closure->id, run.num_steps(), clock_.Now());
  // Only a gang of several workers names its members; a worker alone needs no peers.
  const bool alone = options_.gang_size <= 1 || !run.closure->gang;
  for (const int worker : workers) {
    run.members.push_back(slots_.Take(worker));
    if (alone) continue;
    proto::Peer& member = *run.gang.add_members();
    *member.mutable_task() = run.members.back().task;
    member.set_address(slots_.Find(worker)->address);
  }
  if (alone) {
    run.session = run.members.front().session;
    run.channel = run.members.front().channel;
  } else {
    run.gang.set_shared_memory(options_.shared_memory);
    if (options_.nccl_device) run.gang.set_nccl_device(*options_.nccl_device);
    run.session = gangs_.session();
    // The channel holds a weak pointer, because the channel may outlive the scheduler.
    run.gang_channel = std::make_shared<GangChannel>(
        run.members,
        [weak = weak_from_this()](const std::set<int>& workers, const absl::Status& cause) {
          if (const auto self = weak.lock()) self->OutOfStep(workers, cause);
        });
    run.channel = run.gang_channel;
  }
  in_flight_[run.closure->id] = run;
  rounds_.Begin(*run.closure);
  // A resource that one member lacks is made on all members: the channel calls them together.
  for (std::string& key : ResourceCatalog::KeysFor(*run.closure)) {
    const auto is_there = [&](int worker) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
      return slots_.HasResource(worker, key);
    };
    const bool there = std::all_of(workers.begin(), workers.end(), is_there);
    if (!there) run.missing.push_back(std::move(key));
  }
  return run;
}

void Scheduler::SuspectLocked(const Run& run, const absl::Status& status, Effects& effects) {
  const GangMember* const at_fault = run.AtFault(status);
  // An error that names a member as its origin concerns that member alone.
  for (const GangMember& member : run.members) {
    if (at_fault != nullptr && at_fault != &member) continue;
    const bool in_group = run.gang_channel != nullptr && at_fault != nullptr;
    if (in_group && gangs_.IsAlive(member.worker)) continue;
    // Another member's word does not make this member a suspect either, as long as its own call has
    // not broken.
    if (in_group && run.called && ClassOf(status) == proto::WORKER_LOST &&
        run.gang_channel->Broken().count(member.worker) == 0) {
      continue;
    }
    // A member that refuses pushes of a fenced generation is not to blame: the scheduler itself
    // asked for the fence.
    if (in_group && ClassOf(status) == proto::STALE && gangs_.IsFenced(run.session)) continue;
    // A call from before the worker was lost and came back says nothing about the worker's present
    // state.
    if (!slots_.Serves(member)) continue;
    // Nothing is sent to the worker until WorkerReady is called again.
    slots_.Detach(member.worker);
    if (!options_.on_suspect) continue;
    effects.push_back([self = shared_from_this(), worker = member.worker,
                       incarnation = member.task.incarnation()] {
      self->options_.on_suspect(worker, incarnation);
    });
  }
}

void Scheduler::SetApart(const WorkersApart& apart) {
  {
    Change change(*this);
    gangs_.SetApart(apart);
  }
  // Members that cannot rejoin yet leave the group, so that the remaining members go on.
  if (apart.left_out.empty()) return;
  OutOfStep(apart.left_out,
            MakeError(absl::StatusCode::kUnavailable,
                      "it and others of its group do not reach each other: they go on without it",
                      proto::TRANSIENT));
}

void Scheduler::OutOfStep(const std::set<int>& workers, const absl::Status& cause) {
  std::vector<std::pair<std::shared_ptr<GangChannel>, int>> others;
  std::set<uint64_t> fencing;
  {
    Change change(*this);
    std::map<int, uint64_t> newly;
    // Workers that are out of step already were reported before.
    for (const int worker : workers) {
      if (gangs_.IsInStep(worker)) newly[worker] = gangs_.session();
    }
    if (newly.empty()) return change.IsNone();
    // The other gangs of these workers end without these workers.
    for (const auto& [id, run] : in_flight_) {
      for (const auto& [worker, session] : newly) {
        if (run.gang_channel == nullptr || !run.Involves(worker)) continue;
        others.emplace_back(run.gang_channel, worker);
      }
    }
    OutOfStepLocked(newly, cause, change.effects);
    fencing = fences_.sessions();
  }
  // These workers are not homes of variables any more, so fences must not wait for them.
  if (!fencing.empty()) AskForFence(fencing, cause, 1);
  for (const auto& [gang, worker] : others) gang->Lose(worker, cause);
}

void Scheduler::OutOfStepLocked(const std::map<int, uint64_t>& workers, const absl::Status& cause,
                                Effects& effects) {
  for (const auto& [worker, session] : workers) gangs_.OutOfStep(worker);
  if (!options_.on_out_of_step) return;
  effects.push_back([self = shared_from_this(), workers, cause] {
    self->options_.on_out_of_step(workers, cause);
  });
}

void Scheduler::InStep(int worker, uint64_t incarnation) {
  Change change(*this);
  if (gangs_.members().count(worker) == 0)
    return change.IsNone();  // the worker was removed meanwhile
  const WorkerSlots* const slots = slots_.Find(worker);
  const bool serves = slots != nullptr && slots->ready &&
                      (incarnation == 0 || slots->task.incarnation() == incarnation);
  // After a pause all copies are put back, including the copy of this worker.
  gangs_.InStep(worker);
  if (!serves && paused_.empty()) {
    OutOfStepLocked({{worker, 0}}, absl::UnavailableError("it was lost when it had got its copy"),
                    change.effects);
  }
}

void Scheduler::JoinGangs(int worker) {
  MutexLock lock(mutex_);
  if (options_.gang_size > 1) gangs_.Join(worker);
}

void Scheduler::HoldGangs(Done held) {
  Change change(*this);
  gangs_.Hold(std::move(held));
}

void Scheduler::ReleaseGangs() {
  Change change(*this);
  gangs_.Release();
}

void Scheduler::RemoveWorker(int worker, absl::AnyInvocable<void()> drained) {
  Change change(*this);
  slots_.Remove(worker, std::move(drained));
  gangs_.Leave(worker);
}

}  // namespace cohort
