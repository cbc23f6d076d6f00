#include "coordinator/schedule/redo_log.h"

#include <gtest/gtest.h>

#include <map>
#include <random>

namespace cohort {
namespace {

std::shared_ptr<Closure> MakeClosure(uint64_t id) {
  auto closure = std::make_shared<Closure>();
  closure->id = ClosureId{id};
  return closure;
}

std::vector<uint64_t> Values(const std::vector<ClosureId>& ids) {
  std::vector<uint64_t> values;
  for (const ClosureId id : ids) values.push_back(id.value);
  return values;
}

TEST(RedoLog, OffKeepsNothingAndHoldsNobodyBack) {
  RedoLog log(0);
  log.Admit(MakeClosure(1));
  log.MarkDone(ClosureId{1});
  EXPECT_EQ(log.size(), 0u);
  EXPECT_TRUE(log.HasRoom());
  EXPECT_EQ(log.Watermark(ClosureId{2}).value, 2u);
}

TEST(RedoLog, ACutCoversWhatWasDoneAndLeavesTheRestOpen) {
  RedoLog log(10);
  for (uint64_t id = 1; id <= 5; ++id) log.Admit(MakeClosure(id));
  log.MarkDone(ClosureId{1});
  log.MarkDone(ClosureId{4});
  log.Drop(ClosureId{2});
  const Cut cut = log.BeginCut(ClosureId{6});
  ASSERT_EQ(cut.covered.size(), 2u);
  EXPECT_EQ(cut.covered[0].id.value, 1u);
  EXPECT_EQ(cut.covered[1].id.value, 4u);
  EXPECT_TRUE(cut.Covers(ClosureId{2})) << "it ended and will not run again";
  EXPECT_FALSE(cut.Covers(ClosureId{3}));
  EXPECT_FALSE(cut.Covers(ClosureId{6}));
  EXPECT_EQ(Values(cut.open), (std::vector<uint64_t>{3, 5}));
  EXPECT_EQ(cut.watermark.value, 3u);
  // Done while the checkpoint is written: the cut may not have it.
  log.MarkDone(ClosureId{3});
  log.CommitCut(cut);
  EXPECT_EQ(log.size(), 2u);
  EXPECT_EQ(log.Watermark(ClosureId{6}).value, 3u);
  const auto again = log.TakeDone();
  ASSERT_EQ(again.size(), 1u);
  EXPECT_EQ(again[0]->id.value, 3u);
}

TEST(RedoLog, IsFullUntilACheckpointCoversSomething) {
  RedoLog log(2);
  log.Admit(MakeClosure(1));
  log.Admit(MakeClosure(2));
  EXPECT_FALSE(log.HasRoom());
  log.MarkDone(ClosureId{1});
  EXPECT_FALSE(log.HasRoom()) << "done is not durable";
  log.CommitCut(log.BeginCut(ClosureId{3}));
  EXPECT_TRUE(log.HasRoom());
}

// Against a model that knows the state of every closure.
TEST(RedoLog, RandomOperationsAgreeWithAModel) {
  enum class State { kOpen, kDone, kDurable };
  const uint64_t seed = std::random_device()();
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  std::mt19937_64 rng(seed);
  RedoLog log(50);
  std::map<uint64_t, State> model;
  uint64_t next = 1;
  for (int step = 0; step < 2000; ++step) {
    const uint64_t draw = rng() % 10;
    if (draw < 4 && log.HasRoom()) {
      log.Admit(MakeClosure(next));
      model[next++] = State::kOpen;
    } else if (draw < 8 && next > 1) {
      const uint64_t id = 1 + rng() % (next - 1);
      if (model[id] != State::kOpen) continue;
      log.MarkDone(ClosureId{id});
      model[id] = State::kDone;
    } else if (draw == 8) {
      log.CommitCut(log.BeginCut(ClosureId{next}));
      for (auto& [id, state] : model) {
        if (state == State::kDone) state = State::kDurable;
      }
    } else {
      std::vector<uint64_t> done;
      for (auto& [id, state] : model) {
        if (state != State::kDone) continue;
        done.push_back(id);
        state = State::kOpen;
      }
      std::vector<uint64_t> taken;
      for (const auto& closure : log.TakeDone()) taken.push_back(closure->id.value);
      ASSERT_EQ(taken, done);
    }
    uint64_t watermark = next;
    for (const auto& [id, state] : model) {
      if (state == State::kDurable) continue;
      watermark = id;
      break;
    }
    ASSERT_EQ(log.Watermark(ClosureId{next}).value, watermark);
  }
}

}  // namespace
}  // namespace cohort
