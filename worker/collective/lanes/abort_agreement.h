#pragma once

// The agreement by which all ranks of an aborted generation come to show the same cause. A rank
// that finds a cause, or hears one, tells all others and is told theirs; of two causes the lesser
// counts, and a rank that takes a lesser one tells all again. A rank that has a cause finds no more
// of its own, so once all reachable ranks have answered with the same cause, no other comes, and
// the rank is settled. Ranks that do not answer count as lost, and a rank that a cause says is
// given up is not waited for. Pure state: the group sends and waits.

#include <optional>
#include <vector>

#include "worker/collective/lanes/peer_links.h"

namespace cohort {

// Thread-compatible.
class AbortAgreement {
 public:
  AbortAgreement(int rank, int size);

  // Returns true if the cause is taken: all others must be told, in a new round.
  bool Offer(const AbortCause& cause);

  bool begun() const { return best_.has_value(); }
  const AbortCause& best() const { return *best_; }
  uint64_t round() const { return round_; }

  // Takes the answer of a rank that was told in `round`; an error means that the rank cannot be
  // reached. Returns true if the answer is a lesser cause, which is taken.
  bool Answer(uint64_t round, int rank, const absl::StatusOr<AbortCause>& answer);

  // Stops waiting for the rank, in this round and in those to come.
  void Excuse(int rank);

  // Returns whether the rank has answered at any time.
  bool HasAnswered(int rank) const { return heard_[static_cast<size_t>(rank)] != 0; }

  // Returns whether all ranks have answered in this round, or cannot be reached.
  bool agreed() const { return begun() && waits_for_ == 0; }

 private:
  const int rank_;
  std::optional<AbortCause> best_;
  uint64_t round_ = 0;
  std::vector<char> answered_;  // one per rank: in this round
  std::vector<char> heard_;     // one per rank: in any round
  std::vector<char> excused_;   // Excuse
  int waits_for_ = 0;
};

}  // namespace cohort
