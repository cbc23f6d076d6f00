#include "coordinator/schedule/gang_lineup.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "common/base/check.h"
#include "common/base/invariants.h"

namespace cohort {

void GangLineup::EndPause() {
  failures_ = 0;
  not_before_ = absl::InfinitePast();
}

proto::Gang GangLineup::Send(ClosureId id, size_t steps, absl::Time now) {
  const InvariantsAfter check(*this);
  COHORT_CHECK(IsOpen(now), "a broken generation ends before another one begins");
  // Places count from 1 in each generation, so a gang's generation and place tell members its
  // order.
  if (broken_) {
    ++generation_;
    sequence_ = 0;
    broken_ = false;
  }
  sent_.insert(id);
  proto::Gang gang;
  gang.set_generation(generation_);
  gang.set_sequence(sequence_ + 1);
  // A gang takes one place per step, so the next gang's place follows the place of this gang's last
  // step.
  sequence_ += steps;
  return gang;
}

void GangLineup::Advance() {
  const InvariantsAfter check(*this);
  EndPause();
}

void GangLineup::End(ClosureId id, bool done, absl::Time now) {
  const InvariantsAfter check(*this);
  if (sent_.erase(id) == 0) return;
  if (done) return EndPause();
  if (std::exchange(broken_, true)) return;  // a generation counts as one failure
  // After one failed generation, the next gang is sent at once, without a pause.
  if (++failures_ == 1) return;
  // The pause doubles with each failed generation. The exponent is limited, so that exp2 stays
  // finite.
  const double doubled = std::exp2(std::min(failures_ - 2, 30));
  not_before_ = now + std::min(kPauseMin * doubled, kPauseMax);
}

void GangLineup::TakeBack() {
  const InvariantsAfter check(*this);
  sent_.clear();
  broken_ = true;
  EndPause();
}

void GangLineup::SetFenced(uint64_t session) {
  const InvariantsAfter check(*this);
  fenced_ = std::max(fenced_, session);
}

void GangLineup::AllInStep() {
  const InvariantsAfter check(*this);
  out_of_step_.clear();
  EndPause();
}

void GangLineup::OutOfStep(int worker) {
  const InvariantsAfter check(*this);
  out_of_step_.insert(worker);
  // The set of members changes, so the next gang begins a new generation, and failures of the old
  // set of members no longer count.
  broken_ = true;
  EndPause();
}

void GangLineup::Join(int worker) {
  const InvariantsAfter check(*this);
  members_.insert(worker);
  joining_.insert(worker);
}

void GangLineup::Leave(int worker) {
  const InvariantsAfter check(*this);
  if (members_.erase(worker) == 0) return;
  out_of_step_.erase(worker);
  joining_.erase(worker);
  broken_ = true;  // the next gang begins a generation of the remaining members
  EndPause();
}

void GangLineup::InStep(int worker) {
  const InvariantsAfter check(*this);
  out_of_step_.erase(worker);
  joining_.erase(worker);
  broken_ = true;
  EndPause();
}

void GangLineup::SetApart(WorkersApart apart) {
  const InvariantsAfter check(*this);
  apart_ = std::move(apart);
  EndPause();
}

void GangLineup::Hold(Held held) {
  const InvariantsAfter check(*this);
  held_ = true;
  on_held_ = std::move(held);
}

void GangLineup::Release() {
  const InvariantsAfter check(*this);
  held_ = false;
  on_held_ = nullptr;
}

GangLineup::Held GangLineup::TakeHeld() {
  const InvariantsAfter check(*this);
  // As long as a gang is in flight, it may still change variables.
  if (!sent_.empty()) return nullptr;
  return std::exchange(on_held_, nullptr);
}

void GangLineup::CheckInvariants() const {
  COHORT_CHECK(broken_ || generation_ > 0, "a generation that is not broken has begun");
  COHORT_CHECK(sent_.size() <= sequence_, "each gang sent has a place of its generation");
  COHORT_CHECK(fenced_ <= session(), "no generation is fenced before it has begun");
  COHORT_CHECK(failures_ > 1 || not_before_ == absl::InfinitePast(), "one failure costs no pause");
  COHORT_CHECK(held_ || on_held_ == nullptr,
               "a caller waits for gangs to end only while gangs are held");
  COHORT_CHECK(several_ || (members_.empty() && joining_.empty()),
               "gangs of one worker have no members");
  for (const int worker : joining_) {
    COHORT_CHECK(members_.count(worker) > 0, "a worker that joins is a member");
  }
}

}  // namespace cohort
