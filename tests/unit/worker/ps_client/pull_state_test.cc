#include "worker/ps_client/pull_state.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <string>

#include "common/base/status.h"
#include "worker/ps_client/transfer_plan.h"

namespace cohort {
namespace {

using testing::HasSubstr;

proto::VariableLayout LayoutOf(const std::string& name, const std::string& device) {
  proto::VariableLayout layout;
  layout.set_name(name);
  layout.set_dtype(static_cast<int32_t>(DType::kFloat32));
  layout.add_dims(2);
  layout.add_dims(3);
  layout.set_device(device);
  layout.add_slices()->set_slice_id(name == "there" ? 1 : 2);
  layout.mutable_slices(0)->set_row_count(2);
  return layout;
}

// A pull of two variables, of which one is in a GPU's memory.
class PullOfDeviceTest : public testing::Test {
 protected:
  std::unique_ptr<PullState> Start(Compression compression = {}) {
    TransferPlan plan = *MakeTransferPlan({&there_, &here_}, {});
    plan.compression = compression;
    return std::make_unique<PullState>(
        std::make_shared<const TransferPlan>(std::move(plan)), nullptr,
        [](const VariableType& type, const Shape& shape) { return Tensor(type.dtype, shape); });
  }
  // What the home answers: of each a lease, of one with memory that can be kept.
  Envelope<proto::PullResponse> Answer(const Tensor& there, const Tensor& here) const {
    Envelope<proto::PullResponse> answer;
    for (const Tensor* value : {&there, &here}) {
      *answer.header.add_tensors() = MetaOf(*value);
      answer.header.add_versions(7);
      answer.payload.push_back(SliceOf(*value));
    }
    answer.payload[0].buffer = there.buffer();
    return answer;
  }

  const proto::VariableLayout there_ = LayoutOf("there", "gpu:0");
  const proto::VariableLayout here_ = LayoutOf("here", "");
  const Tensor value_ = Tensor::FromVector<float>({1, 2, 3, 4, 5, 6}, Shape{2, 3});
};

TEST_F(PullOfDeviceTest, AValueOnADeviceIsReadWhereItIs) {
  const std::unique_ptr<PullState> state = Start();
  const Tensor there = value_.Clone();
  ASSERT_TRUE(state->Read(0, Answer(there, value_)).ok());
  const Pulled pulled = state->Take();
  EXPECT_EQ(pulled.values[0].raw(), there.raw());
  EXPECT_NE(pulled.values[1].raw(), value_.raw());
  EXPECT_EQ(pulled.values[1].span<float>(), value_.span<float>());
  EXPECT_EQ(pulled.versions, (std::vector<uint64_t>{7, 7}));
}

TEST_F(PullOfDeviceTest, WhatCannotBeKeptIsCopied) {
  const std::unique_ptr<PullState> state = Start();
  Envelope<proto::PullResponse> answer = Answer(value_, value_);
  answer.payload[0].buffer = nullptr;
  ASSERT_TRUE(state->Read(0, answer).ok());
  const Pulled pulled = state->Take();
  EXPECT_NE(pulled.values[0].raw(), value_.raw());
  EXPECT_EQ(pulled.values[0].span<float>(), value_.span<float>());
}

TEST_F(PullOfDeviceTest, FloatsThatTravelInSixteenBitsAreWidened) {
  const std::unique_ptr<PullState> state = Start({.pull = DType::kBfloat16});
  Tensor narrow = Tensor::Zeros(DType::kBfloat16, Shape{2, 3});
  const uint16_t one_and_two[] = {0x3f80, 0x4000};
  std::memcpy(narrow.mutable_raw(), &one_and_two[0], 2);
  std::memcpy(narrow.mutable_raw() + 5 * 2, &one_and_two[1], 2);
  ASSERT_TRUE(state->Read(0, Answer(narrow, narrow)).ok());
  const Pulled pulled = state->Take();
  EXPECT_EQ(pulled.values[0].data<float>()[0], 1);
  EXPECT_EQ(pulled.values[0].data<float>()[5], 2);
}

TEST_F(PullOfDeviceTest, AnotherTypeOrTooFewBytesAreAnError) {
  Envelope<proto::PullResponse> answer = Answer(value_, value_);
  answer.header.mutable_tensors(0)->set_dtype(static_cast<int32_t>(DType::kBfloat16));
  EXPECT_THAT(std::string(Start()->Read(0, answer).message()),
              HasSubstr("ps:0 answered a pull with a slice 1 of another type or shape"));
  answer = Answer(value_, value_);
  answer.payload[0].size -= 4;
  answer.payload.pop_back();
  const absl::Status few = Start()->Read(0, answer);
  EXPECT_EQ(few.code(), absl::StatusCode::kInternal);
  EXPECT_THAT(std::string(few.message()), HasSubstr("ps:0 answered a pull with"));
}

TEST(TransferPlanOfDevices, RowsAndPiecesAreCopied) {
  const proto::VariableLayout whole = LayoutOf("there", "gpu:0");
  EXPECT_TRUE(MakeTransferPlan({&whole}, {})->variables[0].on_device);
  EXPECT_FALSE(MakeTransferPlan({&whole}, {"there"})->variables[0].on_device);
  proto::VariableLayout cut = whole;
  cut.mutable_slices(0)->set_row_count(1);
  *cut.add_slices() = cut.slices(0);
  cut.mutable_slices(1)->set_row_begin(1);
  EXPECT_FALSE(MakeTransferPlan({&cut}, {})->variables[0].on_device);
}

}  // namespace
}  // namespace cohort
