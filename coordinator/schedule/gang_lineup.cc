#include "coordinator/schedule/gang_lineup.h"

#include <utility>

#include "common/base/check.h"

namespace cohort {

proto::Gang GangLineup::Send(ClosureId id) {
  COHORT_CHECK(IsOpen(), "a broken generation ends before another one begins");
  if (broken_) {
    ++generation_;
    sequence_ = 0;
    broken_ = false;
  }
  sent_.insert(id);
  proto::Gang gang;
  gang.set_generation(generation_);
  gang.set_sequence(++sequence_);
  return gang;
}

void GangLineup::End(ClosureId id, bool done) {
  if (sent_.erase(id) == 0) return;
  if (!done) broken_ = true;
}

void GangLineup::TakeBack() {
  sent_.clear();
  broken_ = true;
}

void GangLineup::OutOfStep(int worker) {
  out_of_step_.insert(worker);
  broken_ = true;
}

void GangLineup::InStep(int worker) {
  out_of_step_.erase(worker);
  broken_ = true;
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
  if (!sent_.empty()) return nullptr;
  return std::exchange(on_held_, nullptr);
}

}  // namespace cohort
