// What a step of a round reads of a slice that has applied the round already. Expectations: copies
// of the value that were made before each round.

#include <gtest/gtest.h>

#include <cstring>
#include <numeric>

#include "tests/support/sequence_rng.h"
#include "tests/unit/ps_server/ps_test_support.h"

namespace cohort {
namespace {

constexpr size_t kWidth = 100;
const Shape kShape{401, kWidth};  // three pages

constexpr uint64_t kCoordinator = 7;

absl::StatusOr<ClosureWindow> Open() { return ClosureWindow{kCoordinator, 0}; }

Tensor Whole(VariableSlice& shard, uint64_t round) {
  return Joined(shard.ReadFor({round, kCoordinator}).bytes, DType::kFloat32, kShape);
}

void ExpectReads(VariableSlice& shard, uint64_t round, const Tensor& expected, uint64_t version) {
  const VariableSlice::Reading reading = shard.ReadFor({round, kCoordinator});
  EXPECT_EQ(reading.version, version);
  EXPECT_TRUE(SameBytes(Joined(reading.bytes, DType::kFloat32, kShape), expected)) << round;
  const std::vector<int64_t> rows = {400, 0, 163, 164, 17, 400};
  std::vector<std::byte> read(rows.size() * kWidth * sizeof(float));
  EXPECT_EQ(shard.ReadRowsFor({round, kCoordinator}, rows, absl::MakeSpan(read)), version);
  for (size_t i = 0; i < rows.size(); ++i) {
    const size_t row_bytes = kWidth * sizeof(float);
    EXPECT_EQ(std::memcmp(read.data() + i * row_bytes,
                          expected.raw() + static_cast<size_t>(rows[i]) * row_bytes, row_bytes),
              0)
        << "round " << round << ", row " << rows[i];
  }
}

class RoundOfPushes {
 public:
  RoundOfPushes(VariableSlice& shard, uint64_t round) : shard_(shard), round_(round) {}

  // Of all rows, or of five.
  void Push(uint64_t member, bool all, SequenceRng& rng) {
    std::vector<int64_t> rows;
    for (int i = 0; i < 5; ++i) rows.push_back(static_cast<int64_t>(rng.Below(401)));
    const size_t count = (all ? 401 : rows.size()) * kWidth;
    std::vector<float> gradient(count);
    for (float& element : gradient) element = static_cast<float>(rng.Uniform());
    const Tensor tensor = Tensor::FromVector<float>(gradient, Shape{static_cast<int64_t>(count)});
    const Payload payload = {SliceOf(tensor)};
    PayloadCursor cursor(payload);
    const SlicePush push = {0.5, round_, 2 * round_ + member, round_, 2};
    const auto applied =
        all ? shard_.Apply(cursor, push, Open) : shard_.ApplyRows(rows, cursor, push, Open);
    ASSERT_TRUE(applied.ok()) << applied.status();
    EXPECT_EQ(applied->kept, member == 0);
  }

 private:
  VariableSlice& shard_;
  const uint64_t round_;
};

TEST(ValueBefore, IsWhatStepsOfTheRoundReadUntilTheNextRound) {
  const uint64_t seed = TestSeed(1);
  SCOPED_TRACE(Replay(seed, "ValueBefore.*"));
  // Changes the rows that are pushed, and with momentum all.
  for (const auto& rule : {Rule("sgd", {}), Rule("sgd", {{"momentum", 0.9}})}) {
    SequenceRng rng(seed);
    const auto shard = MakeShard({"v", DType::kFloat32, kShape, rule});
    for (uint64_t round = 1; round <= 12; ++round) {
      const Tensor before = Whole(*shard, 0);
      const bool all = rng.Below(2) == 0;
      RoundOfPushes pushes(*shard, round);
      pushes.Push(0, all, rng);
      ExpectReads(*shard, round, before, round - 1);
      ExpectReads(*shard, round - 1, before, round - 1);  // late: the round before is over
      pushes.Push(1, all, rng);
      ExpectReads(*shard, round, before, round - 1);
      const Tensor after = Whole(*shard, 0);
      EXPECT_FALSE(SameBytes(before, after));
      ExpectReads(*shard, 0, after, round);
      ExpectReads(*shard, round + 1, after, round);
      ExpectReads(*shard, round, before, round - 1);
    }
  }
}

TEST(ValueBefore, IsForgottenByWhatReplacesTheValue) {
  SequenceRng rng(TestSeed(2));
  for (const bool all : {false, true}) {
    const auto shard = MakeShard({"v", DType::kFloat32, kShape, Rule("sgd", {})});
    const SliceState initial = StateOf(*shard);
    const auto apply_round = [&](uint64_t round) {
      RoundOfPushes pushes(*shard, round);
      pushes.Push(0, all, rng);
      pushes.Push(1, all, rng);
    };
    apply_round(1);
    const Tensor zeros = Tensor::Zeros(DType::kFloat32, kShape);
    const Payload payload = {SliceOf(zeros)};
    PayloadCursor value(payload);
    ASSERT_TRUE(shard->Assign(value, [] { return absl::OkStatus(); }).ok());
    ExpectReads(*shard, 1, zeros, 1);
    apply_round(2);
    PayloadCursor operand(payload);
    VariableSlice::ValueChange change;
    change.update = 1;
    ASSERT_TRUE(*shard->Change(change, operand, Open));
    ExpectReads(*shard, 2, zeros, 2);
    apply_round(3);
    ASSERT_TRUE(shard->Restore(initial, Open).ok());
    ExpectReads(*shard, 3, initial.value, 0);
  }
}

// Rounds of another coordinator, which has restored nothing and changed nothing yet, have the same
// numbers.
TEST(ValueBefore, IsNotReadByTheRoundsOfAnotherCoordinator) {
  SequenceRng rng(TestSeed(4));
  for (const bool all : {false, true}) {
    const auto shard = MakeShard({"v", DType::kFloat32, kShape, Rule("sgd", {})});
    RoundOfPushes pushes(*shard, 1);
    pushes.Push(0, all, rng);
    pushes.Push(1, all, rng);
    const Tensor now = Whole(*shard, 0);
    const RoundRead by_another = {1, kCoordinator + 1};
    const VariableSlice::Reading read = shard->ReadFor(by_another);
    EXPECT_EQ(read.version, 1u);
    EXPECT_TRUE(SameBytes(Joined(read.bytes, DType::kFloat32, kShape), now));
    Tensor rows(DType::kFloat32, kShape);
    std::vector<int64_t> every(401);
    std::iota(every.begin(), every.end(), 0);
    EXPECT_EQ(
        shard->ReadRowsFor(by_another, every, absl::MakeSpan(rows.mutable_raw(), rows.num_bytes())),
        1u);
    EXPECT_TRUE(SameBytes(rows, now));
  }
}

// Memory: one more copy of what a round changes all of, some rows of what it changes in part.
TEST(ValueBefore, CostsWhatTheRoundChanges) {
  SequenceRng rng(TestSeed(3));
  const auto shard = MakeShard({"v", DType::kFloat32, kShape, Rule("sgd", {})});
  const size_t alone = shard->resident_bytes();
  const size_t value_bytes = 401 * kWidth * sizeof(float);
  for (uint64_t round = 1; round <= 5; ++round) {
    RoundOfPushes pushes(*shard, round);
    pushes.Push(0, /*all=*/false, rng);
    pushes.Push(1, /*all=*/false, rng);
    EXPECT_LE(shard->resident_bytes(), alone + 10 * kWidth * sizeof(float));
    EXPECT_EQ(shard->copied_bytes(), 0u) << "no page for the sake of some rows";
  }
  for (uint64_t round = 6; round <= 10; ++round) {
    RoundOfPushes pushes(*shard, round);
    pushes.Push(0, /*all=*/true, rng);
    pushes.Push(1, /*all=*/true, rng);
    EXPECT_LE(shard->resident_bytes(), alone + value_bytes);
  }
}

}  // namespace
}  // namespace cohort
