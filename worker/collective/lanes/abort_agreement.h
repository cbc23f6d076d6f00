#pragma once

// The agreement by which all ranks of an aborted generation come to show the same cause. A rank
// that finds or hears a cause tells all other ranks, and each of them answers with its own cause.
// The lesser of two causes counts (AbortCause), and a rank that takes a lesser cause tells all
// ranks again. A rank that has a cause looks for no further causes of its own. So no new cause can
// come once all reachable ranks have answered with the same cause: the rank is then settled. Ranks
// that do not answer count as lost. A rank that the cause names as given up is not waited for. This
// class is pure state: the group sends the messages and waits for the answers.

#include <optional>
#include <vector>

#include "worker/collective/lanes/peer_links.h"

namespace cohort {

// One rank's state of the agreement on the cause of an abort. Thread-compatible.
class AbortAgreement {
 public:
  AbortAgreement(int rank, int size);

  // Offers a cause. Returns true if no cause is known or the known cause is greater: the offered
  // cause then replaces the known cause, and the group must tell all other ranks, in a new round.
  bool Offer(const AbortCause& cause);

  bool begun() const { return best_.has_value(); }
  const AbortCause& best() const { return *best_; }
  uint64_t round() const { return round_; }

  // Handles the answer of a rank that was told the cause in `round`. An error as the answer means
  // that the rank cannot be reached. Returns true if the answer is a lesser cause, which then
  // replaces the known cause.
  bool Answer(uint64_t round, int rank, const absl::StatusOr<AbortCause>& answer);

  // Stops waiting for answers of the rank, in this round and in later rounds.
  void Excuse(int rank);

  // Returns whether the rank has answered the abort in any round.
  bool HasAnswered(int rank) const { return heard_[static_cast<size_t>(rank)] != 0; }

  // Returns whether every rank has answered in this round or cannot be reached.
  bool agreed() const { return begun() && waits_for_ == 0; }

 private:
  const int rank_;
  std::optional<AbortCause> best_;
  uint64_t round_ = 0;
  std::vector<char> answered_;  // 1 for each rank that has answered in this round
  std::vector<char> heard_;     // 1 for each rank that has answered in any round
  std::vector<char> excused_;   // 1 for each rank on which Excuse was called
  int waits_for_ = 0;
};

}  // namespace cohort
