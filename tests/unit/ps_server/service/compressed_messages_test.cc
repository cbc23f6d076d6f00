// Pulls and pushes of 16-bit floats and of single elements, as messages. Values are small whole
// numbers or halves, which all types hold exactly, unless a test says otherwise.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "common/runtime/kernel/half_floats.h"
#include "tests/unit/ps_server/ps_test_support.h"

namespace cohort {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

Tensor Floats(const std::vector<float>& values, Shape shape) {
  return Tensor::FromVector(values, std::move(shape));
}

// Of slice 1, from some positions alone.
Envelope<proto::PushRequest> PushAt(const PushSpec& spec, const std::vector<int32_t>& positions,
                                    const Tensor& values) {
  Envelope<proto::PushRequest> push = PushOf(spec, {});
  const Tensor places =
      Tensor::FromVector(positions, Shape{static_cast<int64_t>(positions.size())});
  proto::PushSlice& slice = *push.header.add_slices();
  slice.set_slice_id(1);
  *slice.mutable_positions() = MetaOf(places);
  *slice.mutable_tensor() = MetaOf(values);
  push.payload.push_back(SliceOf(places));
  push.payload.push_back(SliceOf(values));
  return push;
}

class CompressedMessages : public testing::Test {
 protected:
  void SetUp() override {
    const std::vector<VariableSpec> variables = {
        {"w", DType::kFloat32, Shape{3, 2}, Rule("sgd", {}), "zeros"},
        {"n", DType::kInt64, Shape{2}, Rule("assign_add", {}), "zeros"},
        {"moving", DType::kFloat32, Shape{2}, Rule("assign_add", {}), "zeros"}};
    ASSERT_TRUE(cluster_.CreateAll(LayOut(variables, 1)).ok());
  }

  std::vector<float> Value() {
    const Tensor value = cluster_.Pull(0, {1})->at(0);
    return {value.data<float>(), value.data<float>() + value.num_elements()};
  }

  std::string Refused(Envelope<proto::PushRequest> push) {
    const absl::Status status = cluster_.Push(0, std::move(push)).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    return std::string(status.message());
  }

  PsCluster cluster_{1};
};

TEST_F(CompressedMessages, GradientsOfEitherTypeAreWidened) {
  const Tensor gradient = Floats({1, -2, 3, 0.5, 5, -6}, {3, 2});
  uint64_t closure = 0;
  for (const DType dtype : {DType::kFloat16, DType::kBfloat16, DType::kFloat32}) {
    const auto answer =
        cluster_.Push(0, PushOf({.closure = ++closure}, {{1, NarrowTensor(gradient, dtype)}}));
    ASSERT_TRUE(answer.ok()) << answer.status();
    EXPECT_EQ(answer->applied(), 1u);
    EXPECT_EQ(answer->taken_size(), 0);
  }
  EXPECT_THAT(Value(), ElementsAre(-3, 6, -9, -1.5, -15, 18));
}

TEST_F(CompressedMessages, RowsOfEitherTypeAreWidened) {
  const Tensor rows = NarrowTensor(Floats({1, 2, 3, 4}, {2, 2}), DType::kBfloat16);
  ASSERT_TRUE(cluster_.Push(0, PushRowsOf({}, {{1, {2, 0}, rows}})).ok());
  EXPECT_THAT(Value(), ElementsAre(-3, -4, 0, 0, -1, -2));
  const Tensor none = NarrowTensor(Floats({}, {0, 2}), DType::kBfloat16);
  ASSERT_TRUE(cluster_.Push(0, PushRowsOf({.closure = 2}, {{1, {}, none}})).ok());
}

TEST_F(CompressedMessages, ElementsGoToTheirPlacesAndTheRestIsZero) {
  const Tensor values = NarrowTensor(Floats({7, 8}, {2}), DType::kFloat16);
  auto answer = cluster_.Push(0, PushAt({}, {1, 5}, values));
  ASSERT_TRUE(answer.ok()) << answer.status();
  EXPECT_THAT(answer->taken(), ElementsAre(1));
  EXPECT_THAT(Value(), ElementsAre(0, -7, 0, 0, 0, -8));
  answer = cluster_.Push(0, PushAt({}, {1, 5}, values));
  EXPECT_EQ(answer->duplicates(), 1u);
  EXPECT_EQ(answer->taken_size(), 0);
  ASSERT_TRUE(cluster_.Push(0, PushAt({.closure = 2}, {}, Floats({}, {0}))).ok());
  EXPECT_THAT(Value(), ElementsAre(0, -7, 0, 0, 0, -8));
  ASSERT_TRUE(cluster_.Push(0, PushAt({.closure = 3}, {0}, Floats({1}, {1}))).ok());
  EXPECT_THAT(Value(), ElementsAre(-1, -7, 0, 0, 0, -8));
}

TEST_F(CompressedMessages, ARoundHasTheMeanOfWhatItsPushesAre) {
  Envelope<proto::PushRequest> first = PushOf(
      {.closure = 1}, {{1, NarrowTensor(Floats({1, 2, 3, 4, 5, 6}, {3, 2}), DType::kFloat16)}});
  Envelope<proto::PushRequest> second = PushAt({.closure = 2}, {0}, Floats({10}, {1}));
  for (Envelope<proto::PushRequest>* push : {&first, &second}) {
    push->header.set_round(1);
    push->header.set_aggregate(2);
  }
  ASSERT_TRUE(cluster_.Push(0, first).ok());
  const auto answer = cluster_.Push(0, second);
  ASSERT_TRUE(answer.ok()) << answer.status();
  EXPECT_THAT(answer->taken(), ElementsAre(1));
  EXPECT_THAT(Value(), ElementsAre(-5.5, -1, -1.5, -2, -2.5, -3));
}

TEST_F(CompressedMessages, PullsAreAnsweredAsTheyAsk) {
  const Tensor third = Floats(std::vector<float>(6, 1.0f / 3), {3, 2});
  ASSERT_TRUE(cluster_.Push(0, PushOf({}, {{1, third}})).ok());
  Envelope<proto::PullRequest> pull = PullOf({1, 2});
  pull.header.set_value_dtype(static_cast<int32_t>(DType::kFloat16));
  const Tensor ids = Tensor::FromVector<int64_t>({2}, {1});
  proto::PullRows& rows = *pull.header.add_rows();
  rows.set_slice_id(1);
  *rows.mutable_ids() = MetaOf(ids);
  pull.payload.push_back(SliceOf(ids));
  const auto answer = cluster_.Call<proto::PullResponse>(0, "/cohort.proto.PsService/Pull", pull);
  ASSERT_TRUE(answer.ok()) << answer.status();
  EXPECT_EQ(PayloadBytes(answer->payload), 6 * 2 + 2 * 8 + 2 * 2u);
  const auto tensors = ReadTensors(answer->header.tensors(), answer->payload);
  ASSERT_TRUE(tensors.ok()) << tensors.status();
  EXPECT_EQ((*tensors)[0].TypeString(), "float16[3,2]");
  EXPECT_EQ((*tensors)[1].TypeString(), "int64[2]");
  EXPECT_EQ((*tensors)[2].TypeString(), "float16[1,2]");
  EXPECT_EQ(WidenTensor((*tensors)[0]).data<float>()[5], -0x1.554p-2f);
  EXPECT_EQ(WidenTensor((*tensors)[2]).data<float>()[1], -0x1.554p-2f);
  EXPECT_EQ(cluster_.Stats(0).bytes_out(), 6 * 2 + 2 * 8 + 2 * 2u);
  pull.header.set_value_dtype(static_cast<int32_t>(DType::kInt8));
  EXPECT_EQ(
      cluster_.Call<proto::PullResponse>(0, "/cohort.proto.PsService/Pull", pull).status().code(),
      absl::StatusCode::kInvalidArgument);
}

// A moving average of what it is rounded to would stop moving.
TEST_F(CompressedMessages, WhatNoOptimizerTrainsIsAnsweredAsItIs) {
  Envelope<proto::PullRequest> pull = PullOf({1, 3});
  pull.header.set_value_dtype(static_cast<int32_t>(DType::kBfloat16));
  const auto answer = cluster_.Call<proto::PullResponse>(0, "/cohort.proto.PsService/Pull", pull);
  ASSERT_TRUE(answer.ok()) << answer.status();
  const auto tensors = ReadTensors(answer->header.tensors(), answer->payload);
  ASSERT_TRUE(tensors.ok()) << tensors.status();
  EXPECT_EQ((*tensors)[0].TypeString(), "bfloat16[3,2]");
  EXPECT_EQ((*tensors)[1].TypeString(), "float32[2]");
}

TEST_F(CompressedMessages, WhatDoesNotFitIsRefusedBeforeAnythingChanges) {
  const Tensor two = Floats({1, 2}, {2});
  EXPECT_THAT(Refused(PushAt({}, {0, 6}, two)),
              HasSubstr("position 6 follows 0: positions must ascend and lie below 6"));
  EXPECT_THAT(Refused(PushAt({}, {-1, 2}, two)), HasSubstr("position -1"));
  EXPECT_THAT(Refused(PushAt({}, {3, 3}, two)), HasSubstr("position 3 follows 3"));
  EXPECT_THAT(Refused(PushAt({}, {0, 1, 2}, two)), HasSubstr("float32[3]"));
  Envelope<proto::PushRequest> whole_numbers =
      PushAt({}, {0}, Tensor::FromVector<int64_t>({1}, {1}));
  whole_numbers.header.mutable_slices(0)->set_slice_id(2);
  EXPECT_THAT(Refused(whole_numbers), HasSubstr("positions must be int32[n], of float32"));
  Envelope<proto::PushRequest> with_ids = PushAt({}, {0}, Floats({1}, {1}));
  *with_ids.header.mutable_slices(0)->mutable_ids() = MetaOf(Tensor::FromVector<int64_t>({1}, {1}));
  EXPECT_THAT(Refused(with_ids), HasSubstr("without ids"));
  Envelope<proto::PushRequest> narrow_integers =
      PushOf({}, {{2, NarrowTensor(Floats({1, 2}, {2}), DType::kFloat16)}});
  EXPECT_THAT(Refused(narrow_integers), HasSubstr("int64[2]"));
  EXPECT_THAT(Value(), testing::Each(0.0f));
}

}  // namespace
}  // namespace cohort
