#include "worker/gang/gang_line.h"

#include <utility>

#include "common/base/check.h"
#include "common/base/invariants.h"
#include "common/wire/error_detail.h"

namespace cohort {

namespace {

absl::Status Refused() {
  return MakeError(absl::StatusCode::kAborted,
                   "a synchronous step before this one has failed, or was begun again: this one "
                   "has to be, too",
                   proto::TRANSIENT);
}

}  // namespace

GangLine::Turns GangLine::EnterLocked(uint64_t generation) {
  if (generation <= generation_) return {};
  generation_ = generation;
  next_ = 1;
  broken_ = false;
  // Gangs that wait in an earlier generation can never have their turn, so the caller refuses them.
  return std::exchange(waiting_, {});
}

void GangLine::Restart() {
  Turns refused;
  {
    MutexLock lock(mutex_);
    const InvariantsAfter check(*this);
    refused = std::exchange(waiting_, {});
    generation_ = 0;
    next_ = 1;
    broken_ = false;
  }
  // The gangs are refused outside the lock, because a refused gang calls End().
  for (auto& [sequence, turn] : refused) turn(Refused());
}

void GangLine::Wait(const proto::Gang& gang, Turn turn) {
  Turns refused;
  bool is_next = false;
  {
    MutexLock lock(mutex_);
    const InvariantsAfter check(*this);
    refused = EnterLocked(gang.generation());
    // A gang is refused if its generation is over, if a gang of its generation has failed, or if
    // its turn has already passed.
    if (gang.generation() < generation_ || broken_ || gang.sequence() < next_) {
      refused.emplace(gang.sequence(), std::move(turn));
    } else if (gang.sequence() == next_) {
      is_next = true;
    } else {
      waiting_[gang.sequence()] = std::move(turn);
    }
  }
  // The callbacks run outside the lock, because a gang may run and call End() at once.
  for (auto& [sequence, late] : refused) late(Refused());
  if (is_next) turn(absl::OkStatus());
}

void GangLine::End(const proto::Gang& gang, bool ended_well) {
  Turns refused;
  Turn next;
  {
    MutexLock lock(mutex_);
    const InvariantsAfter check(*this);
    refused = EnterLocked(gang.generation());
    if (gang.generation() == generation_ && !ended_well) {
      // A failed gang breaks the generation, because later gangs build on variables that the failed
      // gang should have updated.
      broken_ = true;
      refused.merge(waiting_);
      waiting_.clear();
    } else if (gang.generation() == generation_ && gang.sequence() == next_) {
      ++next_;
      if (const auto found = waiting_.find(next_); found != waiting_.end()) {
        next = std::move(found->second);
        waiting_.erase(found);
      }
    }
  }
  // The callbacks run outside the lock, those of refused gangs first.
  for (auto& [sequence, turn] : refused) turn(Refused());
  if (next) next(absl::OkStatus());
}

void GangLine::CheckInvariants() const {
  COHORT_CHECK(waiting_.empty() || !broken_, "no gang waits in a broken generation");
  COHORT_CHECK(waiting_.empty() || waiting_.begin()->first > next_,
               "a waiting gang comes after the gang whose turn it is");
}

}  // namespace cohort
