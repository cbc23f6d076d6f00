#include "coordinator/schedule/gang_lineup.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "common/base/check.h"

namespace cohort {

void GangLineup::EndPause() {
  failures_ = 0;
  not_before_ = absl::InfinitePast();
}

proto::Gang GangLineup::Send(ClosureId id, size_t steps, absl::Time now) {
  COHORT_CHECK(IsOpen(now), "a broken generation ends before another one begins");
  // Sequences start anew, so members can tell gangs of this generation from older ones.
  if (broken_) {
    ++generation_;
    sequence_ = 0;
    broken_ = false;
  }
  sent_.insert(id);
  proto::Gang gang;
  gang.set_generation(generation_);
  gang.set_sequence(sequence_ + 1);
  // Each step has its own place, so the next gang follows the last step of this one.
  sequence_ += steps;
  return gang;
}

void GangLineup::End(ClosureId id, bool done, absl::Time now) {
  if (sent_.erase(id) == 0) return;
  if (done) return EndPause();
  if (std::exchange(broken_, true)) return;  // only the first failure of a generation counts
  // A single failure costs no pause: the next gang is sent at once.
  if (++failures_ == 1) return;
  // The pause doubles with each failure; the cap on the exponent keeps exp2 finite.
  const double doubled = std::exp2(std::min(failures_ - 2, 30));
  not_before_ = now + std::min(kPauseMin * doubled, kPauseMax);
}

void GangLineup::TakeBack() {
  sent_.clear();
  broken_ = true;
  EndPause();
}

void GangLineup::AllInStep() {
  out_of_step_.clear();
  EndPause();
}

void GangLineup::OutOfStep(int worker) {
  out_of_step_.insert(worker);
  // The members change, so the next gang begins a generation, and old failures no longer count.
  broken_ = true;
  EndPause();
}

void GangLineup::Join(int worker) {
  members_.insert(worker);
  joining_.insert(worker);
}

void GangLineup::Leave(int worker) {
  if (members_.erase(worker) == 0) return;
  out_of_step_.erase(worker);
  joining_.erase(worker);
  broken_ = true;  // the remaining members begin a new generation
  EndPause();
}

void GangLineup::InStep(int worker) {
  out_of_step_.erase(worker);
  joining_.erase(worker);
  broken_ = true;
  EndPause();
}

void GangLineup::SetApart(WorkersApart apart) {
  apart_ = std::move(apart);
  EndPause();
}

void GangLineup::Hold(Held held) {
  held_ = true;
  on_held_ = std::move(held);
}

void GangLineup::Release() {
  held_ = false;
  on_held_ = nullptr;
}

GangLineup::Held GangLineup::TakeHeld() {
  // A gang that is in flight may still change variables.
  if (!sent_.empty()) return nullptr;
  return std::exchange(on_held_, nullptr);
}

}  // namespace cohort
