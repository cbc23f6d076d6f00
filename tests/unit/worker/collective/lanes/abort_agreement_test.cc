#include "worker/collective/lanes/abort_agreement.h"

#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "tests/support/sequence_rng.h"
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

TEST(AbortAgreement, WhoIsExcusedIsNotWaitedFor) {
  using Kind = AbortCause::Kind;
  AbortAgreement agreement(0, 3);
  const AbortCause first = CauseOf(Kind::kFound, 5, 0);
  ASSERT_TRUE(agreement.Offer(first));
  agreement.Excuse(2);
  EXPECT_FALSE(agreement.agreed()) << "rank 1 has not answered";
  EXPECT_FALSE(agreement.Answer(1, 2, absl::UnavailableError("lost")));
  EXPECT_FALSE(agreement.agreed()) << "that was no answer of rank 1";
  EXPECT_FALSE(agreement.Answer(1, 1, first));
  EXPECT_TRUE(agreement.agreed());
  // In later rounds, too; what it says counts none the less.
  ASSERT_TRUE(agreement.Offer(CauseOf(Kind::kFound, 3, 1)));
  EXPECT_FALSE(agreement.agreed());
  EXPECT_FALSE(agreement.Answer(2, 1, CauseOf(Kind::kFound, 3, 1)));
  EXPECT_TRUE(agreement.agreed());
  EXPECT_TRUE(agreement.Answer(2, 2, CauseOf(Kind::kFound, 1, 2)));
  EXPECT_EQ(agreement.best().reporter, 2);
}

// Ranks that tell each other; messages arrive in any order. Belongs to the test.
class Exchange {
 public:
  explicit Exchange(SequenceRng& rng) : rng_(rng), size_(2 + static_cast<int>(rng.Below(5))) {
    for (int rank = 0; rank < size_; ++rank) {
      ranks_.emplace_back(rank, size_);
      lost_.push_back(rank > 0 && rng.Below(4) == 0);
      if (!lost_.back() && (rank == 0 || rng.Below(2) == 0)) to_raise_.push_back(rank);
    }
    shown_.resize(ranks_.size());
  }

  // False when nothing is left to happen.
  bool Step() {
    if (to_raise_.empty() && messages_.empty()) return false;
    const uint64_t pick = rng_.Below(to_raise_.size() + messages_.size());
    if (pick < to_raise_.size()) {
      Raise(Take(to_raise_, pick));
    } else {
      Deliver(Take(messages_, pick - to_raise_.size()));
    }
    for (size_t rank = 0; rank < ranks_.size(); ++rank) {
      if (shown_[rank].ok() && ranks_[rank].agreed()) shown_[rank] = ranks_[rank].best().status;
    }
    return true;
  }

  // What each showed its callers when all had answered, of those that are not lost.
  void ExpectOneCause() const {
    for (size_t rank = 0; rank < ranks_.size(); ++rank) {
      if (lost_[rank]) continue;
      ASSERT_TRUE(ranks_[rank].agreed()) << "rank " << rank;
      ASSERT_EQ(shown_[rank], ranks_[0].best().status) << "rank " << rank;
    }
  }

 private:
  struct Message {
    size_t from = 0;
    size_t to = 0;
    bool answer = false;
    uint64_t round = 0;
    AbortCause cause;
  };

  template <typename T>
  T Take(std::vector<T>& from, uint64_t index) {
    T taken = from[index];
    from.erase(from.begin() + static_cast<int64_t>(index));
    return taken;
  }

  // A rank that has heard of a cause finds none.
  void Raise(int rank) {
    AbortAgreement& self = ranks_[static_cast<size_t>(rank)];
    if (self.begun()) return;
    self.Offer(CauseOf(static_cast<AbortCause::Kind>(rng_.Below(3)), rng_.Below(3), rank));
    TellAll(static_cast<size_t>(rank));
  }
  void TellAll(size_t from) {
    const AbortAgreement& self = ranks_[from];
    for (size_t to = 0; to < ranks_.size(); ++to) {
      if (to != from) messages_.push_back({from, to, false, self.round(), self.best()});
    }
  }
  void Deliver(const Message& message) {
    AbortAgreement& to = ranks_[message.to];
    const auto from = static_cast<int>(message.from);
    if (message.answer) {
      if (to.Answer(message.round, from, message.cause)) TellAll(message.to);
    } else if (lost_[message.to]) {
      ranks_[message.from].Answer(message.round, static_cast<int>(message.to),
                                  absl::UnavailableError("lost"));
    } else {
      if (to.Offer(message.cause)) TellAll(message.to);
      messages_.push_back({message.to, message.from, true, message.round, to.best()});
    }
  }

  SequenceRng& rng_;
  const int size_;
  std::vector<AbortAgreement> ranks_;
  std::vector<bool> lost_;
  std::vector<int> to_raise_;
  std::vector<Message> messages_;
  std::vector<absl::Status> shown_;
};

TEST(AbortAgreement, AllWhoCanBeReachedSettleOnOneCause) {
  const uint64_t first = TestSeed(1);
  for (uint64_t seed = first; seed < first + 2000; ++seed) {
    SCOPED_TRACE(Replay("collective_test", seed, "AbortAgreement.AllWhoCanBeReached*"));
    SequenceRng rng(seed);
    Exchange exchange(rng);
    while (exchange.Step()) {
    }
    exchange.ExpectOneCause();
    if (HasFatalFailure()) return;
  }
}

}  // namespace
}  // namespace cohort
