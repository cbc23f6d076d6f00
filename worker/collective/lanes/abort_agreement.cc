#include "worker/collective/lanes/abort_agreement.h"

#include <algorithm>
#include <utility>

namespace cohort {

AbortAgreement::AbortAgreement(int rank, int size)
    : rank_(rank),
      answered_(static_cast<size_t>(size)),
      heard_(static_cast<size_t>(size)),
      excused_(static_cast<size_t>(size)) {}

bool AbortAgreement::Offer(const AbortCause& cause) {
  if (best_.has_value() && !(cause < *best_)) return false;
  // A new cause starts a new round: every other rank must be told, and must answer again.
  best_ = cause;
  ++round_;
  // Excused ranks count as if they had answered in this round.
  answered_ = excused_;
  answered_[static_cast<size_t>(rank_)] = 1;
  waits_for_ = static_cast<int>(std::count(answered_.begin(), answered_.end(), 0));
  return true;
}

void AbortAgreement::Excuse(int rank) {
  const auto index = static_cast<size_t>(rank);
  excused_[index] = 1;
  if (begun() && !std::exchange(answered_[index], 1)) --waits_for_;
}

bool AbortAgreement::Answer(uint64_t round, int rank, const absl::StatusOr<AbortCause>& answer) {
  // A rank that has answered can be reached, even if its answer belongs to an earlier round.
  if (answer.ok()) heard_[static_cast<size_t>(rank)] = 1;
  if (answer.ok() && Offer(*answer)) return true;
  char& answered = answered_[static_cast<size_t>(rank)];
  // An answer in an earlier round says nothing about the cause of this round.
  if (round != round_ || answered) return false;
  answered = 1;
  --waits_for_;
  return false;
}

}  // namespace cohort
