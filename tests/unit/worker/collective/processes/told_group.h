#pragma once

// Ranks that are processes (told_rank.h) and form groups, one after the other, and what they do
// there.

#include <memory>
#include <set>
#include <string>
#include <vector>

#include "tests/unit/worker/collective/processes/told_rank.h"

namespace cohort {

// The first go through slots; the others are read where they lie, or come in pieces.
inline constexpr int64_t kFew = 1001;
inline constexpr int64_t kMany = 60'013;

Work WorkOf(CollectiveOp op, int size, int64_t count);

// Belongs to the thread of the test.
class ToldGroup {
 public:
  // The works outlive it.
  ToldGroup(int size, const std::vector<Work>& works);

  int size() const { return static_cast<int>(ranks_.size()); }
  ToldRank& Of(int rank) { return *ranks_[static_cast<size_t>(rank)]; }
  std::vector<int> AllBut(const std::set<int>& ranks) const;

  // Another process takes the place of one that has died.
  void Replace(int rank) { ranks_[static_cast<size_t>(rank)] = std::make_unique<ToldRank>(works_); }

  // The orders that form the next group, by rank.
  std::vector<RankOrder> OrdersToJoin();
  void TellToJoin();
  void ExpectJoined();

  void TellAll(const RankOrder& order);
  // All calls of the order were right. Returns how many barriers they took.
  int ExpectComplete();
  // Of the calls of the order these ranks have done just `complete`, and ended with one cause,
  // which is that `lost` was lost. Returns it.
  std::string ExpectLost(const std::vector<int>& ranks, int lost, int complete);

 private:
  const std::vector<Work>& works_;
  std::vector<std::unique_ptr<ToldRank>> ranks_;
  uint64_t generation_ = 0;
};

// "falling asleep at"
const char* NameOf(BarrierStep step);

}  // namespace cohort
