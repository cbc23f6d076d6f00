#include "coordinator/schedule/redo_log.h"

#include <algorithm>
#include <utility>

#include "common/base/check.h"
#include "common/base/invariants.h"

namespace cohort {

void RedoLog::Admit(std::shared_ptr<Closure> closure) {
  const InvariantsAfter check(*this);
  if (!IsOn()) return;
  COHORT_CHECK(HasRoom(), "a closure is admitted only when there is room");
  const ClosureId id = closure->id;
  steps_ += closure->num_steps();
  records_.emplace(id, std::move(closure));
}

void RedoLog::MarkDone(ClosureId id) {
  const InvariantsAfter check(*this);
  // A closure that changes no variables has no record: it was dropped from the log, or never put
  // into it.
  if (records_.count(id) > 0) done_.insert(id);
}

void RedoLog::Drop(ClosureId id) {
  const InvariantsAfter check(*this);
  const auto record = records_.find(id);
  if (record == records_.end()) return;
  steps_ -= record->second->num_steps();
  records_.erase(record);
  done_.erase(id);
}

Cut RedoLog::BeginCut(ClosureId next) const {
  Cut cut;
  cut.next = next;
  for (const auto& [id, closure] : records_) {
    if (done_.count(id) > 0) {
      cut.covered.push_back({id, closure->result.lock(), closure->num_steps()});
    } else {
      cut.open.push_back(id);
    }
  }
  // If closures are open, every closure below the oldest open one is durable once this cut is
  // committed.
  cut.watermark = cut.open.empty() ? next : cut.open.front();
  return cut;
}

void RedoLog::CommitCut(const Cut& cut) {
  const InvariantsAfter check(*this);
  for (const Cut::Covered& covered : cut.covered) {
    // The closure may have been dropped from the log since the cut began.
    const auto record = records_.find(covered.id);
    if (record == records_.end()) continue;
    durable_round_ = std::max(durable_round_, record->second->round.number);
    Drop(covered.id);
  }
}

ClosureId RedoLog::Watermark(ClosureId next) const {
  return records_.empty() ? next : records_.begin()->first;
}

void RedoLog::ShrinkRounds() {
  // If errors have ended some closures of a round, the closures that are left cannot fill the round
  // when they run again. So the round's `aggregate` is reduced to their number.
  struct Members {
    uint32_t count = 0;
    bool applied = false;
  };
  std::map<uint64_t, Members> rounds;
  for (const auto& [id, closure] : records_) {
    // The round is part of a committed checkpoint, in every slice. So its `aggregate` no longer
    // matters.
    if (closure->round.number <= durable_round_) continue;
    Members& members = rounds[closure->round.number];
    ++members.count;
    members.applied = members.applied || done_.count(id) > 0;
  }
  for (const auto& [id, closure] : records_) {
    const auto members = rounds.find(closure->round.number);
    // Rounds that were not applied before the restore keep their `aggregate`.
    if (members == rounds.end() || !members->second.applied) continue;
    closure->round.aggregate = std::min(closure->round.aggregate, members->second.count);
  }
}

std::vector<std::shared_ptr<Closure>> RedoLog::TakeDone() {
  const InvariantsAfter check(*this);
  ShrinkRounds();
  std::vector<std::shared_ptr<Closure>> closures;
  for (const ClosureId id : done_) closures.push_back(records_.at(id));
  done_.clear();
  return closures;
}

void RedoLog::CheckInvariants() const {
  COHORT_CHECK(IsOn() || records_.empty(), "a log that is off keeps nothing");
  COHORT_CHECK(done_.size() <= records_.size(), "a done closure has a record");
  COHORT_CHECK(records_.empty() == (steps_ == 0),
               "the number of steps is that of the recorded closures");
  if (records_.size() > kFrequentWalkMax) return;
  size_t steps = 0;
  for (const auto& [id, closure] : records_) {
    COHORT_CHECK(closure->id == id, "a record stands under its closure's id");
    steps += closure->num_steps();
  }
  COHORT_CHECK(steps == steps_, "the number of steps is that of the recorded closures");
  for (const ClosureId id : done_)
    COHORT_CHECK(records_.count(id) > 0, "a done closure has a record");
}

}  // namespace cohort
