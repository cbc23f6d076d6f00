#include "ps_server/slice/variable_slice.h"

#include <gtest/gtest.h>

#include <cstring>
#include <limits>

#include "common/runtime/update/make_update_kernel.h"
#include "common/wire/error_detail.h"
#include "tests/support/sequence_rng.h"
#include "tests/unit/ps_server/ps_test_support.h"

namespace cohort {
namespace {

absl::StatusOr<ClosureWindow> Open() { return ClosureWindow{7, 0}; }
absl::StatusOr<ClosureWindow> Stale() { return absl::FailedPreconditionError("stale"); }

std::unique_ptr<VariableSlice> Make(const VariableSpec& spec) { return MakeShard(spec); }

Tensor RandomTensor(uint64_t seed, const Shape& shape) {
  return *InitialRows({"random_normal", 0, 1, seed}, "gradient", DType::kFloat32, shape,
                      {0, shape.dim(0)});
}

// Three pages and a bit; and rows that are longer than a block.
const Shape kShape{401, 127};
const Shape kWideShape{3, 5000};

std::vector<proto::UpdateRule> Rules() {
  return {Rule("sgd", {}),
          Rule("sgd", {{"momentum", 0.9}, {"nesterov", 1}}),
          Rule("adagrad", {}),
          Rule("rmsprop", {}),
          Rule("rmsprop", {{"centered", 1}, {"momentum", 0.5}}),
          Rule("adam", {}),
          Rule("adam", {{"amsgrad", 1}}),
          Rule("adam", {{"weight_decay", 0.004}, {"use_ema", 1}, {"ema_overwrite_frequency", 3}}),
          Rule("adamax", {}),
          Rule("nadam", {}),
          Rule("adadelta", {}),
          Rule("ftrl", {{"l1_regularization_strength", 0.1}}),
          Rule("rowwise_adagrad", {}),
          Rule("rowwise_adagrad", {{"use_ema", 1}}),
          Rule("lion", {{"weight_decay", 0.1}}),
          Rule("adafactor", {}),
          Rule("lamb", {{"weight_decay", 0.1}, {"use_ema", 1}}),
          Rule("muon", {}),
          Rule("adam", {{"gradient_accumulation_steps", 2}, {"use_ema", 1}}),
          Rule("assign_add", {})};
}

// The kernel called once over the whole slice.
void ApplyWhole(const SliceLayout& layout, const Tensor& gradient, uint64_t step_number,
                SliceState& state) {
  UpdateStep step;
  const size_t count = static_cast<size_t>(gradient.num_elements());
  step.gradient = gradient.span<float>();
  step.value_in = state.value.span<float>();
  step.value_out = {state.value.mutable_data<float>(), count};
  for (Tensor& slot : state.slots) {
    const size_t elements = static_cast<size_t>(slot.num_elements());
    step.slots.push_back({slot.span<float>(), {slot.mutable_data<float>(), elements}});
  }
  step.row_width = layout.row_width();
  step.matrix = MatrixOf(layout.full_shape);
  step.learning_rate = 0.01;
  step.step = step_number;
  (*MakeUpdateKernel(layout.rule))->Apply(step);
}

TEST(VariableSlice, EveryRuleAppliedFromCutMessagesGivesTheBitsOfOneKernelCall) {
  SequenceRng rng(TestSeed(1));
  std::vector<std::pair<proto::UpdateRule, Shape>> cases;
  for (const proto::UpdateRule& rule : Rules()) cases.emplace_back(rule, kShape);
  cases.emplace_back(Rule("rowwise_adagrad", {}), kWideShape);
  cases.emplace_back(Rule("rowwise_adagrad", {}), Shape{77});
  for (const auto& [rule, shape] : cases) {
    const auto shard = Make({"v", DType::kFloat32, shape, rule});
    SliceState expected = StateOf(*shard);
    for (uint64_t step = 1; step <= 5; ++step) {
      const Tensor gradient = RandomTensor(step, shape);
      ApplyWhole(shard->layout(), gradient, step, expected);
      std::vector<size_t> cuts;
      for (int i = 0; i < 7; ++i) cuts.push_back(rng.Below(gradient.num_bytes()));
      std::sort(cuts.begin(), cuts.end());
      const Payload payload = CutAt(gradient, cuts);
      PayloadCursor cursor(payload);
      // Some pushes find a reader of the value, some one of value and slots, so all ways of
      // writing are taken.
      const VariableSlice::Reading reader =
          step % 2 == 0 ? shard->Read() : VariableSlice::Reading();
      const auto snapshot = step % 3 == 0 ? shard->TakeSnapshot(Open) : Stale().status();
      EXPECT_EQ(shard->Apply(cursor, {0.01, step, step}, Open)->version_before, step - 1);
    }
    const SliceState held = StateOf(*shard);
    EXPECT_EQ(std::memcmp(held.value.raw(), expected.value.raw(), held.value.num_bytes()), 0)
        << rule.ShortDebugString();
    ASSERT_EQ(held.slots.size(), expected.slots.size());
    for (size_t i = 0; i < held.slots.size(); ++i) {
      ASSERT_EQ(held.slots[i].num_bytes(), expected.slots[i].num_bytes());
      EXPECT_EQ(
          std::memcmp(held.slots[i].raw(), expected.slots[i].raw(), held.slots[i].num_bytes()), 0)
          << rule.ShortDebugString() << " slot " << i;
    }
  }
}

// The same update: rows that are pushed twice, and rows with zeros.
TEST(VariableSlice, SomeRowsUnderARuleOfTheWholeVariableAreRowsOfZerosElsewhere) {
  for (const char* op : {"adafactor", "lamb", "muon"}) {
    const auto some = Make({"v", DType::kFloat32, Shape{5, 3}, Rule(op, {})});
    const auto all = Make({"v", DType::kFloat32, Shape{5, 3}, Rule(op, {})});
    const Payload rows = {
        SliceOf(Tensor::FromVector<float>({1, 2, 3, 4, 5, 6, 10, 20, 30}, Shape{3, 3}))};
    const Payload whole = {SliceOf(
        Tensor::FromVector<float>({4, 5, 6, 0, 0, 0, 0, 0, 0, 11, 22, 33, 0, 0, 0}, Shape{5, 3}))};
    PayloadCursor of_some(rows);
    PayloadCursor of_all(whole);
    ASSERT_TRUE(some->ApplyRows({3, 0, 3}, of_some, {0.01, 1, 1}, Open).ok());
    ASSERT_TRUE(all->Apply(of_all, {0.01, 1, 1}, Open).ok());
    const SliceState expected = StateOf(*all);
    const SliceState held = StateOf(*some);
    EXPECT_EQ(std::memcmp(held.value.raw(), expected.value.raw(), held.value.num_bytes()), 0) << op;
    ASSERT_EQ(held.slots.size(), expected.slots.size());
    for (size_t i = 0; i < held.slots.size(); ++i) {
      EXPECT_TRUE(SameBytes(held.slots[i], expected.slots[i])) << op << " slot " << i;
    }
  }
}

TEST(VariableSlice, AReadingDoesNotChangeAndTheNextOneIsNew) {
  const auto shard = Make({"v", DType::kFloat32, Shape{3}, Rule("assign_add", {}), "ones"});
  const VariableSlice::Reading before = shard->Read();
  const Payload payload = {SliceOf(Tensor::FromVector<float>({1, 2, 3}, Shape{3}))};
  PayloadCursor cursor(payload);
  ASSERT_TRUE(shard->Apply(cursor, {}, Open).ok());
  const VariableSlice::Reading after = shard->Read();
  EXPECT_EQ(reinterpret_cast<const float*>(before.bytes[0].data)[2], 1);
  EXPECT_EQ(reinterpret_cast<const float*>(after.bytes[0].data)[2], 4);
  EXPECT_EQ(before.version, 0u);
  EXPECT_EQ(after.version, 1u);
}

TEST(VariableSlice, ADuplicateAndARefusedPushChangeNothing) {
  const auto shard = Make({"v", DType::kFloat32, Shape{2}, Rule("assign_add", {}), "ones"});
  const Payload payload = {SliceOf(Tensor::FromVector<float>({5, 5, 6, 6, 7, 7}, Shape{6}))};
  PayloadCursor cursor(payload);
  EXPECT_FALSE(shard->Apply(cursor, {.closure_id = 3}, Open)->duplicate);
  EXPECT_TRUE(shard->Apply(cursor, {.closure_id = 3}, Open)->duplicate);
  EXPECT_EQ(*reinterpret_cast<const float*>(shard->Read().bytes[0].data), 6);
  EXPECT_EQ(shard->Read().version, 1u);
  ASSERT_TRUE(shard->Apply(cursor, {.closure_id = 4}, Open).ok());
  EXPECT_EQ(*reinterpret_cast<const float*>(shard->Read().bytes[0].data), 13) << "the next bytes";
  PayloadCursor refused(payload);
  EXPECT_FALSE(shard->Apply(refused, {.closure_id = 5}, Stale).ok());
  EXPECT_FALSE(shard->Assign(refused, [] { return absl::FailedPreconditionError("stale"); }).ok());
  EXPECT_FALSE(shard->TakeSnapshot(Stale).ok());
  EXPECT_FALSE(shard->Restore(*VariableSlice::InitialState(shard->layout()), Stale).ok());
  EXPECT_EQ(*reinterpret_cast<const float*>(shard->Read().bytes[0].data), 13);
  EXPECT_FALSE(shard->Apply(refused, {.closure_id = 5}, Open)->duplicate) << "not remembered";
}

TEST(VariableSlice, BecomesItsAverage) {
  const auto rule = Rule("sgd", {{"use_ema", 1}, {"ema_momentum", 0.5}, {"momentum", 0.5}});
  const auto shard = Make({"v", DType::kFloat32, Shape{2}, rule, "ones"});
  const Payload payload = {SliceOf(Tensor::FromVector<float>({4, 8}, Shape{2}))};
  PayloadCursor cursor(payload);
  // The average is half way from the start to the value.
  ASSERT_TRUE(shard->Apply(cursor, {.learning_rate = 1, .step = 2, .closure_id = 2}, Open).ok());
  const VariableSlice::Reading before = shard->Read();
  EXPECT_FALSE(shard->AssignAverage([] { return absl::FailedPreconditionError("stale"); }).ok());
  EXPECT_EQ(*reinterpret_cast<const float*>(shard->Read().bytes[0].data), -3);
  ASSERT_TRUE(shard->AssignAverage([] { return absl::OkStatus(); }).ok());
  const auto* const after = reinterpret_cast<const float*>(shard->Read().bytes[0].data);
  EXPECT_EQ(after[0], -1);
  EXPECT_EQ(after[1], -3);
  EXPECT_EQ(*reinterpret_cast<const float*>(before.bytes[0].data), -3)
      << "a reading does not change";

  const auto without = Make({"w", DType::kFloat32, Shape{2}, Rule("sgd", {}), "ones"});
  const absl::Status status = without->AssignAverage([] { return absl::OkStatus(); });
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_NE(status.message().find("w "), std::string::npos) << status;
}

TEST(VariableSlice, AFullAppliedSetRefusesAndARisenWatermarkMakesRoom) {
  const auto shard = Make({"n", DType::kInt32, Shape{}, Rule("assign_add", {}), "zeros"});
  const Payload payload = {SliceOf(Tensor::Scalar<int32_t>(1))};
  uint64_t watermark = 0;
  const auto apply = [&](uint64_t closure) {
    PayloadCursor cursor(payload);
    return shard->Apply(cursor, {.closure_id = closure}, [&] {
      return absl::StatusOr<ClosureWindow>(ClosureWindow{7, watermark});
    });
  };
  for (uint64_t i = 0; i < kAppliedIntervalsMax; ++i) ASSERT_TRUE(apply(1 + 2 * i).ok());
  const uint64_t next = 1 + 2 * kAppliedIntervalsMax;
  EXPECT_EQ(ClassOf(apply(next).status()), proto::TRANSIENT);
  EXPECT_EQ(shard->Read().version, kAppliedIntervalsMax);
  watermark = 3;
  EXPECT_FALSE(apply(next)->duplicate);
}

TEST(VariableSlice, WholeNumbersAddAndWrapAround) {
  const auto shard = Make({"count", DType::kInt64, Shape{}, Rule("assign_add", {}), "ones"});
  const int64_t most = std::numeric_limits<int64_t>::max();
  const Payload payload = {SliceOf(Tensor::Scalar<int64_t>(most))};
  PayloadCursor cursor(payload);
  ASSERT_TRUE(shard->Apply(cursor, {}, Open).ok());
  EXPECT_EQ(*reinterpret_cast<const int64_t*>(shard->Read().bytes[0].data),
            std::numeric_limits<int64_t>::min());
  const auto small = Make({"n", DType::kInt32, Shape{2}, Rule("assign_add", {}), "zeros"});
  const Payload added = {SliceOf(Tensor::FromVector<int32_t>({-4, 9}, Shape{2}))};
  PayloadCursor second(added);
  ASSERT_TRUE(small->Apply(second, {}, Open).ok());
  EXPECT_EQ(reinterpret_cast<const int32_t*>(small->Read().bytes[0].data)[0], -4);
}

TEST(VariableSlice, ASnapshotCopiesNothingAndKeepsItsSlotsWhilePushesGoOn) {
  const auto shard = Make({"v", DType::kFloat32, kShape, Rule("adam", {})});
  const Tensor gradient = RandomTensor(1, kShape);
  const Payload payload = {SliceOf(gradient)};
  const size_t alone = shard->resident_bytes();
  uint64_t closure = 0;
  const auto push = [&] {
    PayloadCursor cursor(payload);
    ++closure;
    ASSERT_FALSE(shard->Apply(cursor, {0.01, closure, closure}, Open)->duplicate);
  };
  const auto raw_slots = [&] {
    const auto snapshot = *shard->TakeSnapshot(Open);
    return std::make_pair(snapshot.slots[0][0].data, snapshot.slots[1][3].data);
  };
  push();
  const auto before = raw_slots();
  push();
  EXPECT_EQ(raw_slots(), before) << "in place without a snapshot";
  EXPECT_EQ(shard->resident_bytes(), alone);
  for (int i = 0; i < 5; ++i) {
    const SliceSnapshot snapshot = *shard->TakeSnapshot(Open);
    const Tensor value = Joined(snapshot.value, DType::kFloat32, kShape);
    const Tensor slot = Joined(snapshot.slots[1], DType::kFloat32, kShape);
    push();
    push();
    EXPECT_TRUE(SameBytes(Joined(snapshot.value, DType::kFloat32, kShape), value));
    EXPECT_TRUE(SameBytes(Joined(snapshot.slots[1], DType::kFloat32, kShape), slot));
    EXPECT_NE(raw_slots().second, snapshot.slots[1][3].data);
  }
  EXPECT_EQ(shard->resident_bytes(), 2 * alone) << "one spare of the value and of each slot";
}

TEST(VariableSlice, SlotsStartAtTheirInitialValues) {
  const auto shard = Make({"v", DType::kFloat32, Shape{3}, Rule("adagrad", {})});
  const SliceState snapshot = StateOf(*shard);
  ASSERT_EQ(snapshot.slots.size(), 1u);
  EXPECT_EQ(snapshot.slots[0].span<float>()[2], 0.1f);
}

TEST(VariableSlice, RestoreBringsBackASnapshot) {
  const auto shard = Make({"v", DType::kFloat32, kShape, Rule("adam", {})});
  const auto other = Make({"w", DType::kFloat32, kShape, Rule("adam", {})});
  const Tensor gradient = RandomTensor(1, kShape);
  const Payload payload = {SliceOf(gradient)};
  PayloadCursor cursor(payload);
  ASSERT_TRUE(shard->Apply(cursor, {0.01, 1, 1}, Open).ok());
  const SliceState saved = StateOf(*shard);
  ASSERT_TRUE(other->Restore({saved.value, saved.slots, {}, {}}, Open).ok());
  const SliceState back = StateOf(*other);
  EXPECT_EQ(std::memcmp(back.value.raw(), saved.value.raw(), saved.value.num_bytes()), 0);
  EXPECT_EQ(std::memcmp(back.slots[1].raw(), saved.slots[1].raw(), saved.value.num_bytes()), 0);
  EXPECT_EQ(back.history->version, 0u) << "an ordinary restore leaves the history alone";
  ASSERT_TRUE(other->Restore({saved.value, saved.slots, {}, saved.history}, Open).ok());
  PayloadCursor again(payload);
  EXPECT_TRUE(other->Apply(again, {0.01, 1, 1}, Open)->duplicate);
  EXPECT_EQ(other->Read().version, 1u);
}

}  // namespace
}  // namespace cohort
