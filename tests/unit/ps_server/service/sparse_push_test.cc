// Pushes of some rows: what they change, and what they leave alone.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

#include "common/runtime/update/make_update_kernel.h"
#include "common/runtime/update/sparse_update.h"
#include "common/wire/error_detail.h"
#include "tests/support/sequence_rng.h"
#include "tests/unit/ps_server/ps_test_support.h"

namespace cohort {
namespace {

using testing::HasSubstr;

absl::StatusOr<ClosureWindow> Open() { return ClosureWindow{7, 0}; }

constexpr int64_t kWidth = 48;
const Shape kShape{1500, kWidth};  // four pages and a bit
constexpr size_t kPageRows = kPageBytes / (kWidth * sizeof(float));

std::vector<proto::UpdateRule> Rules() {
  std::vector<proto::UpdateRule> rules;
  for (const proto::SparseMode mode : {proto::DENSE_EXACT, proto::LAZY, proto::LAZY_COMPENSATED}) {
    for (proto::UpdateRule rule :
         {Rule("sgd", {}), Rule("sgd", {{"momentum", 0.9}}), Rule("adam", {{"amsgrad", 1}}),
          Rule("adam", {{"use_ema", 1}, {"weight_decay", 0.01}}), Rule("rowwise_adagrad", {}),
          Rule("ftrl", {}), Rule("assign_add", {})}) {
      rule.set_sparse(mode);
      rules.push_back(rule);
    }
  }
  return rules;
}

struct RandomRows {
  std::vector<int64_t> ids;
  Tensor gradients;
};

RandomRows NextRows(SequenceRng& rng) {
  RandomRows rows;
  for (uint64_t i = 1 + rng.Below(30); i > 0; --i) {
    rows.ids.push_back(static_cast<int64_t>(rng.Below(1500)));
    if (rng.Below(4) == 0) rows.ids.push_back(rows.ids[rng.Below(rows.ids.size())]);
  }
  const Shape shape{static_cast<int64_t>(rows.ids.size()), kWidth};
  rows.gradients = *InitialRows({"random_normal", 0, 1, rng.Next()}, "g", DType::kFloat32, shape,
                                {0, shape.dim(0)});
  return rows;
}

// The same on one piece of memory.
void ApplyToWhole(const SliceLayout& layout, const RandomRows& rows, uint64_t step_number,
                  SliceState& state) {
  const MergedRows merged(rows.ids, rows.gradients.span<float>(), kWidth);
  UpdateStep step;
  step.learning_rate = 0.01;
  step.step = step_number;
  step.row_width = kWidth;
  step.slots.resize(state.slots.size());
  const auto memory = [&](size_t first, size_t count, UpdateStep& step) {
    const auto part = [&](Tensor& tensor, size_t width) {
      return absl::MakeSpan(tensor.mutable_data<float>() + first * width, count * width);
    };
    step.value_in = step.value_out = part(state.value, kWidth);
    for (size_t i = 0; i < state.slots.size(); ++i) {
      const bool per_row = layout.rule_spec.slots[i].per_row;
      const absl::Span<float> span = part(state.slots[i], per_row ? 1 : kWidth);
      step.slots[i] = {span, span};
    }
    return count;
  };
  const auto place = [&](size_t row, RowUpdate& update) {
    memory(row, 1, step);
    update.value = step.value_out.data();
    for (size_t i = 0; i < step.slots.size(); ++i) update.slots[i] = step.slots[i].out.data();
  };
  const std::unique_ptr<UpdateKernel> kernel = *MakeUpdateKernel(layout.rule);
  if (layout.rule_spec.sweeps) {
    UpdateAllRows(*kernel, merged, 1500, step, memory);
  } else {
    memory(0, 1, step);  // for the spans' lengths
    UpdateSomeRows(*kernel, merged, step, place);
  }
}

TEST(SparsePush, EveryRuleAppliedFromCutMessagesGivesTheBitsOfOneTableWhoeverReads) {
  const uint64_t seed = TestSeed(1);
  for (const proto::UpdateRule& rule : Rules()) {
    SCOPED_TRACE(Replay(seed, "SparsePush.*") + " " + rule.ShortDebugString());
    SequenceRng rng(seed);
    const auto shard = MakeShard({"v", DType::kFloat32, kShape, rule});
    SliceState expected = StateOf(*shard);
    VariableSlice::Reading reading;
    Tensor read;
    for (uint64_t step = 1; step <= 12; ++step) {
      const RandomRows rows = NextRows(rng);
      ApplyToWhole(shard->layout(), rows, step, expected);
      std::vector<size_t> cuts = {rng.Below(rows.gradients.num_bytes())};
      const Payload payload = CutAt(rows.gradients, step % 3 == 0 ? cuts : std::vector<size_t>());
      PayloadCursor cursor(payload);
      const auto snapshot =
          step % 4 == 0 ? shard->TakeSnapshot(Open) : absl::StatusOr<SliceSnapshot>();
      const auto applied = shard->ApplyRows(rows.ids, cursor, {0.01, step, step}, Open);
      EXPECT_EQ(applied->version_before, step - 1);
      if (step % 2 == 0) continue;
      // Held over the next pushes.
      if (step > 1) {
        EXPECT_TRUE(SameBytes(Joined(reading.bytes, DType::kFloat32, kShape), read));
      }
      reading = shard->Read();
      read = Joined(reading.bytes, DType::kFloat32, kShape);
    }
    const SliceState held = StateOf(*shard);
    EXPECT_TRUE(SameBytes(held.value, expected.value));
    for (size_t i = 0; i < held.slots.size(); ++i) {
      EXPECT_TRUE(SameBytes(held.slots[i], expected.slots[i])) << "slot " << i;
    }
    std::vector<std::byte> two(2 * kWidth * sizeof(float));
    EXPECT_EQ(shard->ReadRowsFor({}, {1499, 3}, absl::MakeSpan(two)), 12u);
    EXPECT_EQ(std::memcmp(two.data(), held.value.raw() + 1499 * two.size() / 2, two.size() / 2), 0);
    EXPECT_EQ(std::memcmp(two.data() + two.size() / 2, held.value.raw() + 3 * two.size() / 2,
                          two.size() / 2),
              0);
  }
}

// TensorFlow copies a whole variable for each full read once it has had a sparse update.
TEST(SparsePush, AReaderCostsACopyOfThePagesThatChangeAndNoMore) {
  const auto shard = MakeShard({"v", DType::kFloat32, kShape, Rule("adagrad", {})});
  const Payload gradient = {SliceOf(Tensor::Zeros(DType::kFloat32, Shape{2, kWidth}))};
  uint64_t closure = 0;
  const auto push = [&](int64_t a, int64_t b) {
    PayloadCursor cursor(gradient);
    ++closure;
    EXPECT_TRUE(shard->ApplyRows({a, b}, cursor, {0.01, closure, closure}, Open).ok());
  };
  const size_t page = kPageRows * kWidth * sizeof(float);
  push(0, 1000);
  EXPECT_EQ(shard->copied_bytes(), 0u) << "nobody reads";
  const VariableSlice::Reading reader = shard->Read();
  EXPECT_EQ(reader.bytes.size(), 5u);
  push(5, 6);
  EXPECT_EQ(shard->copied_bytes(), page) << "slots have no reader";
  push(6, 7);
  EXPECT_EQ(shard->copied_bytes(), page) << "the page is not the reader's any more";
  push(8, static_cast<int64_t>(kPageRows));
  EXPECT_EQ(shard->copied_bytes(), 2 * page);
  const SliceSnapshot snapshot = *shard->TakeSnapshot(Open);
  push(1, 2);
  EXPECT_EQ(shard->copied_bytes(), 4 * page) << "a page of the value and one of the slot";
  EXPECT_LT(shard->copied_bytes(), shard->num_bytes());
}

TEST(SparsePush, ADuplicatePassesOverItsRows) {
  const auto shard = MakeShard({"v", DType::kFloat32, Shape{4}, Rule("assign_add", {}), "zeros"});
  const Payload payload = {SliceOf(Tensor::FromVector<float>({1, 2, 1, 2, 5}, Shape{5}))};
  PayloadCursor cursor(payload);
  EXPECT_FALSE(shard->ApplyRows({3, 3}, cursor, {.closure_id = 1}, Open)->duplicate);
  EXPECT_TRUE(shard->ApplyRows({3, 3}, cursor, {.closure_id = 1}, Open)->duplicate);
  EXPECT_FALSE(shard->ApplyRows({0}, cursor, {.closure_id = 2}, Open)->duplicate);
  const SliceState state = StateOf(*shard);
  EXPECT_THAT(state.value.span<float>(), testing::ElementsAre(5, 0, 0, 3));
}

class SparsePushCalls : public testing::Test {
 protected:
  SparsePushCalls() : cluster_(2) {
    COHORT_CHECK(cluster_
                     .CreateAll(LayOut(
                         {{"a", DType::kFloat32, Shape{10, 3}, Rule("assign_add", {}), "zeros"},
                          {"n", DType::kInt64, Shape{10}, Rule("assign_add", {}), "zeros"},
                          {"s", DType::kFloat32, Shape{}, Rule("sgd", {}), "zeros"}},
                         2))
                     .ok(),
                 "variables");
  }
  static Tensor Ones(const Shape& shape) {
    Tensor tensor(DType::kFloat32, shape);
    std::fill_n(tensor.mutable_data<float>(), tensor.num_elements(), 1.0f);
    return tensor;
  }
  absl::Status Push(uint64_t closure, const std::vector<RowsOfSlice>& slices) {
    return cluster_.Push(1, PushRowsOf({.closure = closure}, slices)).status();
  }
  PsCluster cluster_;
};

// ps:1 has rows 5 to 9: slice 2 of "a", slice 4 of "n".
TEST_F(SparsePushCalls, RowsAreNumberedInTheWholeVariable) {
  ASSERT_TRUE(Push(1, {{2, {9, 5, 9}, Ones({3, 3})},
                       {4, {6, 6}, Tensor::FromVector<int64_t>({100, -30}, Shape{2})}})
                  .ok());
  const std::vector<Tensor> values = *cluster_.Pull(1, {2, 4});
  EXPECT_THAT(values[0].span<float>(),
              testing::ElementsAre(1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2, 2, 2));
  EXPECT_THAT(values[1].span<int64_t>(), testing::ElementsAre(0, 70, 0, 0, 0));
  EXPECT_EQ(cluster_.Stats(1).applied_slices(), 2u);
  EXPECT_TRUE(Push(2, {{2, {}, Tensor(DType::kFloat32, Shape{0, 3})}}).ok()) << "no rows at all";
}

TEST_F(SparsePushCalls, NothingChangesWhereOneIdIsWrong) {
  const Tensor ints = Tensor::FromVector<int64_t>({1, 1}, Shape{2});
  for (const int64_t wrong : {int64_t{4}, int64_t{10}, int64_t{-1}, int64_t{1} << 62}) {
    const absl::Status status = Push(3, {{2, {5, 6}, Ones({2, 3})}, {4, {6, wrong}, ints}});
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(status.message()), HasSubstr(std::to_string(wrong)));
    EXPECT_THAT(std::string(status.message()), HasSubstr("[5, 10)"));
  }
  const auto refused = [&](const RowsOfSlice& rows, const char* why) {
    const absl::Status status = Push(3, {{4, {5, 6}, ints}, rows});
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << why;
    EXPECT_THAT(std::string(status.message()), HasSubstr(why));
  };
  refused({2, {5, 6}, Ones({1, 3})}, "[2,3]");
  refused({2, {5}, Ones({1, 2})}, "[1,3]");
  const std::vector<Tensor> values = *cluster_.Pull(1, {2, 4});
  for (const Tensor& value : values) {
    for (size_t i = 0; i < value.num_bytes(); ++i) ASSERT_EQ(value.raw()[i], std::byte{0});
  }
  EXPECT_EQ(cluster_.Stats(1).applied_slices(), 0u);
  // The closure's push was not remembered either.
  ASSERT_TRUE(Push(3, {{2, {5}, Ones({1, 3})}}).ok());
  EXPECT_EQ((*cluster_.Pull(1, {2}))[0].span<float>()[0], 1);
  const absl::Status scalar =
      cluster_.Push(0, PushRowsOf({.closure = 4}, {{5, {0}, Ones({1})}})).status();
  EXPECT_THAT(std::string(scalar.message()), HasSubstr("a scalar has none"));
}

}  // namespace
}  // namespace cohort
