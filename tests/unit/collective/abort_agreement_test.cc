#include "worker/collective/abort_agreement.h"

#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "common/base/rng.h"
#include "tests/support/test_seed.h"

namespace cohort {
namespace {

AbortCause CauseOf(AbortCause::Kind kind, uint64_t sequence, int reporter) {
  return {kind, sequence, reporter, absl::UnavailableError(absl::StrCat("cause ", reporter))};
}

TEST(AbortAgreement, FoundBeforeLostBeforeHeard) {
  using Kind = AbortCause::Kind;
  EXPECT_TRUE(CauseOf(Kind::kFound, 9, 9) < CauseOf(Kind::kLost, 1, 1));
  EXPECT_TRUE(CauseOf(Kind::kLost, 9, 9) < CauseOf(Kind::kHeard, 1, 1));
  EXPECT_TRUE(CauseOf(Kind::kLost, 1, 9) < CauseOf(Kind::kLost, 2, 1));
  EXPECT_TRUE(CauseOf(Kind::kLost, 1, 1) < CauseOf(Kind::kLost, 1, 2));
}

struct Message {
  int from = 0;
  int to = 0;
  bool answer = false;
  uint64_t round = 0;
  AbortCause cause;
};

// Causes arise at some ranks until they hear of one; messages arrive in any order; some ranks are
// lost from the start.
TEST(AbortAgreement, AllWhoCanBeReachedSettleOnOneCause) {
  const uint64_t first = TestSeed(1);
  for (uint64_t seed = first; seed < first + 2000; ++seed) {
    SCOPED_TRACE(Replay("collective_test", seed, "AbortAgreement.AllWhoCanBeReached*"));
    SequenceRng rng(seed);
    const int size = 2 + static_cast<int>(rng.Below(5));
    std::vector<AbortAgreement> ranks;
    std::vector<bool> lost;
    for (int rank = 0; rank < size; ++rank) {
      ranks.emplace_back(rank, size);
      lost.push_back(rank > 0 && rng.Below(4) == 0);
    }
    // What each showed its callers: the cause when first all had answered.
    std::vector<absl::Status> settled(static_cast<size_t>(size));
    std::vector<Message> messages;
    const auto tell_all = [&](int from) {
      const AbortAgreement& self = ranks[static_cast<size_t>(from)];
      for (int to = 0; to < size; ++to) {
        if (to != from) messages.push_back({from, to, false, self.round(), self.best()});
      }
    };
    std::vector<int> to_raise;
    for (int rank = 0; rank < size; ++rank) {
      if (!lost[static_cast<size_t>(rank)] && (rank == 0 || rng.Below(2) == 0)) {
        to_raise.push_back(rank);
      }
    }
    while (!to_raise.empty() || !messages.empty()) {
      for (size_t rank = 0; rank < ranks.size(); ++rank) {
        if (settled[rank].ok() && ranks[rank].agreed()) settled[rank] = ranks[rank].best().status;
      }
      const uint64_t pick = rng.Below(to_raise.size() + messages.size());
      if (pick < to_raise.size()) {
        const int rank = to_raise[pick];
        to_raise.erase(to_raise.begin() + static_cast<int64_t>(pick));
        AbortAgreement& self = ranks[static_cast<size_t>(rank)];
        if (self.begun()) continue;  // it has heard of another
        self.Offer(CauseOf(static_cast<AbortCause::Kind>(rng.Below(3)), rng.Below(3), rank));
        tell_all(rank);
        continue;
      }
      const size_t index = pick - to_raise.size();
      const Message message = messages[index];
      messages.erase(messages.begin() + static_cast<int64_t>(index));
      AbortAgreement& to = ranks[static_cast<size_t>(message.to)];
      if (message.answer) {
        if (to.Answer(message.round, message.from, message.cause)) tell_all(message.to);
      } else if (lost[static_cast<size_t>(message.to)]) {
        AbortAgreement& from = ranks[static_cast<size_t>(message.from)];
        from.Answer(message.round, message.to, absl::UnavailableError("lost"));
      } else {
        if (to.Offer(message.cause)) tell_all(message.to);
        messages.push_back({message.to, message.from, true, message.round, to.best()});
      }
    }
    for (int rank = 0; rank < size; ++rank) {
      const AbortAgreement& self = ranks[static_cast<size_t>(rank)];
      if (lost[static_cast<size_t>(rank)]) continue;
      ASSERT_TRUE(self.agreed()) << "rank " << rank;
      const absl::Status& shown = settled[static_cast<size_t>(rank)];
      ASSERT_TRUE(shown.ok() || shown == self.best().status)
          << "rank " << rank << " showed another";
      ASSERT_EQ(self.best().status, ranks[0].best().status) << "rank " << rank;
    }
  }
}

}  // namespace
}  // namespace cohort
