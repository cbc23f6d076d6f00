#pragma once

// The agreement by which all ranks of an aborted generation come to show the same cause. A rank
// that finds a cause, or hears of one, tells all other ranks, and each of them answers with the
// cause that it knows. The lesser of two causes counts (AbortCause), and a rank that takes a lesser
// cause tells all ranks again, in a new round. A rank that has a cause looks for no further causes
// of its own. So no new cause can come once all ranks that can be reached have answered with the
// same cause: the ranks agree. A rank that does not answer counts as lost. A rank that the cause
// names as given up is not waited for. This class is pure state: LaneGroup sends the messages and
// waits for the answers.

#include <optional>
#include <vector>

#include "worker/collective/lanes/peer_links.h"

namespace cohort {

// One rank's state of the agreement on the cause of an abort. Thread-compatible.
class AbortAgreement {
 public:
  AbortAgreement(int rank, int size);

  // Offers a cause. Returns true if this rank knew no cause or a greater one: it then takes the
  // offered cause, and the caller must tell all other ranks, in a new round.
  bool Offer(const AbortCause& cause);

  bool begun() const { return best_.has_value(); }
  const AbortCause& best() const { return *best_; }
  uint64_t round() const { return round_; }

  // Handles the answer of a rank that was told the cause in round `round`. An error as answer means
  // that the rank cannot be reached. Returns true if the answer is a lesser cause, which this rank
  // then takes as in Offer().
  bool Answer(uint64_t round, int rank, const absl::StatusOr<AbortCause>& answer);

  // Waits for no answer of the rank any more, in this round and in later ones.
  void Excuse(int rank);

  // Returns true if the rank has answered with a cause in any round.
  bool HasAnswered(int rank) const { return heard_[static_cast<size_t>(rank)] != 0; }

  // Returns true if every rank has answered in this round, cannot be reached or is excused.
  bool agreed() const { return begun() && waits_for_ == 0; }

 private:
  const int rank_;
  std::optional<AbortCause> best_;
  uint64_t round_ = 0;
  std::vector<char> answered_;  // 1 for each rank that is not waited for any more in this round
  std::vector<char> heard_;     // 1 for each rank that has answered with a cause in any round
  std::vector<char> excused_;   // 1 for each rank that Excuse() was called for
  int waits_for_ = 0;
};

}  // namespace cohort
