#include "coordinator/schedule/closure_queue.h"

#include <gtest/gtest.h>

#include <set>

#include "absl/strings/str_cat.h"
#include "common/base/status.h"
#include "common/wire/error_detail.h"
#include "tests/support/sequence_rng.h"

namespace cohort {
namespace {

std::shared_ptr<Closure> MakeClosure() { return std::make_shared<Closure>(); }

TEST(ClosureQueue, GivesIdsInOrderFromOne) {
  ClosureQueue queue(4);
  EXPECT_EQ(queue.Put(MakeClosure()).value, 1u);
  EXPECT_EQ(queue.Put(MakeClosure()).value, 2u);
  EXPECT_EQ(queue.Take()->id.value, 1u);
  EXPECT_EQ(queue.Take()->id.value, 2u);
  EXPECT_EQ(queue.Take(), nullptr);
}

TEST(ClosureQueue, CountsInFlightUnderTheBoundSoThatPutBackNeedsNoRoom) {
  ClosureQueue queue(2);
  queue.Put(MakeClosure());
  queue.Put(MakeClosure());
  EXPECT_FALSE(queue.HasRoom());
  const ClosureId first = queue.Take()->id;
  EXPECT_FALSE(queue.HasRoom());
  queue.PutBack(first);
  EXPECT_EQ(queue.queued(), 2u);
  EXPECT_EQ(queue.in_flight(), 0u);
}

TEST(ClosureQueue, AFullQueueHasRoomAgainWhenAnEighthIsFree) {
  ClosureQueue queue(16);
  for (int i = 0; i < 15; ++i) queue.Put(MakeClosure());
  EXPECT_TRUE(queue.HasRoom());
  queue.Put(MakeClosure());
  EXPECT_FALSE(queue.HasRoom());
  queue.MarkDone(queue.Take()->id);
  EXPECT_FALSE(queue.HasRoom());
  queue.MarkDone(queue.Take()->id);
  EXPECT_TRUE(queue.HasRoom());
  queue.Put(MakeClosure());
  EXPECT_TRUE(queue.HasRoom());
}

TEST(ClosureQueue, PutsBackInOrderOfAgeAndCountsAttempts) {
  ClosureQueue queue(8);
  for (int i = 0; i < 4; ++i) queue.Put(MakeClosure());
  const auto one = queue.Take();
  const auto two = queue.Take();
  EXPECT_EQ(one->attempt, 1u);
  queue.PutBack(two->id);
  queue.PutBack(one->id);
  EXPECT_EQ(queue.Take()->id.value, 1u);
  EXPECT_EQ(one->attempt, 2u);
  EXPECT_EQ(queue.Take()->id.value, 2u);
  EXPECT_EQ(queue.Take()->id.value, 3u);
}

TEST(ClosureQueue, KeepsTheFirstErrorWithTheTextsOfOthersUntilItIsTaken) {
  ClosureQueue queue(8);
  for (int i = 0; i < 3; ++i) queue.Put(MakeClosure());
  queue.MarkFailed(queue.Take()->id, absl::InvalidArgumentError("first"));
  queue.MarkFailed(queue.Take()->id, absl::InvalidArgumentError("second"));
  EXPECT_TRUE(queue.HasError());
  EXPECT_EQ(queue.CancelQueued().size(), 1u);
  EXPECT_TRUE(queue.IsIdle());
  EXPECT_EQ(queue.TakeError().message(), "first; after it: second");
  EXPECT_FALSE(queue.HasError());
}

// The other closures of an aborted group tell its cause behind a context, in any order.
TEST(ClosureQueue, TellsNoSentenceTwiceWhateverContextItIsToldIn) {
  const absl::Status cause = absl::InvalidArgumentError("worker:1: the label is 9");
  const absl::Status told = Annotate(cause, "program 'train_step': group 'g' was aborted");
  for (const auto& [first, second] : {std::pair{cause, told}, {told, cause}, {told, told}}) {
    ClosureQueue queue(8);
    queue.RecordError(first);
    queue.RecordError(second);
    queue.RecordError(absl::InternalError("the disk is full"));
    queue.RecordError(absl::InternalError("ps:0: the disk is full"));
    queue.RecordError(absl::InternalError("e disk is full"));
    EXPECT_EQ(queue.TakeError().message(),
              absl::StrCat(first.message(), "; after it: the disk is full; e disk is full"));
  }
}

// Two members of a gang have the same bad label, each in its own file.
TEST(ClosureQueue, TellsTheFailureOfAClosureOnceInWhateverWords) {
  const auto failure = [](absl::string_view text, uint64_t closure) {
    proto::ErrorDetail detail;
    detail.set_error_class(proto::INPUT);
    detail.set_closure_id(closure);
    return WithDetail(absl::InvalidArgumentError(text), detail);
  };
  ClosureQueue queue(8);
  for (int i = 0; i < 2; ++i) {
    queue.RecordError(failure("worker:0: label 9 in /a/y.idx", 7));
    queue.RecordError(failure("the group was aborted: worker:1: label 9 in /b/y.idx", 7));
    queue.RecordError(failure("no such row", 8));
    EXPECT_EQ(queue.TakeError().message(), "worker:0: label 9 in /a/y.idx; after it: no such row");
  }
}

TEST(ClosureQueue, TheWatermarkIsTheOldestUnfinished) {
  ClosureQueue queue(8);
  EXPECT_EQ(queue.watermark().value, 1u);
  for (int i = 0; i < 3; ++i) queue.Put(MakeClosure());
  const auto one = queue.Take();
  const auto two = queue.Take();
  queue.MarkDone(two->id);
  EXPECT_EQ(queue.watermark().value, 1u);
  queue.MarkDone(one->id);
  EXPECT_EQ(queue.watermark().value, 3u);
  queue.MarkDone(queue.Take()->id);
  EXPECT_EQ(queue.watermark().value, 4u);
}

// Against a model: a closure is queued, in flight or ended, and never two of them.
TEST(ClosureQueue, RandomOperationsKeepEveryClosureInOneState) {
  for (uint64_t seed = 1; seed <= 50; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed << " of this loop");
    SequenceRng rng(seed);
    ClosureQueue queue(10);
    std::set<uint64_t> queued, in_flight;
    for (int i = 0; i < 500; ++i) {
      const uint64_t choice = rng.Below(5);
      if (choice == 0 && queue.HasRoom()) {
        queued.insert(queue.Put(MakeClosure()).value);
      } else if (choice == 1) {
        const auto taken = queue.Take();
        ASSERT_EQ(taken == nullptr, queued.empty());
        if (taken == nullptr) continue;
        ASSERT_EQ(taken->id.value, *queued.begin()) << "the oldest goes first";
        queued.erase(taken->id.value);
        in_flight.insert(taken->id.value);
      } else if (!in_flight.empty()) {
        const uint64_t id =
            *std::next(in_flight.begin(), static_cast<long>(rng.Below(in_flight.size())));
        in_flight.erase(id);
        if (choice == 2) {
          queue.PutBack(ClosureId{id});
          queued.insert(id);
        } else {
          queue.MarkDone(ClosureId{id});
        }
      }
      ASSERT_EQ(queue.queued(), queued.size());
      ASSERT_EQ(queue.in_flight(), in_flight.size());
      ASSERT_LE(queued.size() + in_flight.size(), 10u);
    }
  }
}

}  // namespace
}  // namespace cohort
