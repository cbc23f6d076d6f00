#include "worker/collective/abort_agreement.h"

#include <algorithm>

namespace cohort {

AbortAgreement::AbortAgreement(int rank, int size)
    : rank_(rank), answered_(static_cast<size_t>(size)), heard_(static_cast<size_t>(size)) {}

bool AbortAgreement::Offer(const AbortCause& cause) {
  if (best_.has_value() && !(cause < *best_)) return false;
  best_ = cause;
  ++round_;
  std::fill(answered_.begin(), answered_.end(), 0);
  answered_[static_cast<size_t>(rank_)] = 1;
  waits_for_ = static_cast<int>(answered_.size()) - 1;
  return true;
}

bool AbortAgreement::Answer(uint64_t round, int rank, const absl::StatusOr<AbortCause>& answer) {
  if (answer.ok()) heard_[static_cast<size_t>(rank)] = 1;
  if (answer.ok() && Offer(*answer)) return true;
  char& answered = answered_[static_cast<size_t>(rank)];
  if (round != round_ || answered) return false;
  answered = 1;
  --waits_for_;
  return false;
}

}  // namespace cohort
