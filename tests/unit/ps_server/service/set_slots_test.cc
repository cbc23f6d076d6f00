// Assign and Pull with the name of a slot: what another program's optimizer kept becomes the slot
// of slices, and what another program's optimizer is to go on with is read.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/wire/error_detail.h"
#include "tests/unit/ps_server/ps_test_support.h"

namespace cohort {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr char kAssign[] = "/cohort.proto.PsService/Assign";
constexpr char kPull[] = "/cohort.proto.PsService/Pull";

// Slice 1: float32[2] with momentum; 2: the same; 3: float32[2, 2] with a slot for each row.
class SetSlots : public testing::Test {
 protected:
  SetSlots() {
    const proto::UpdateRule momentum = Rule("sgd", {{"momentum", 0.5}});
    COHORT_CHECK(cluster_
                     .CreateAll(LayOut({{"a", DType::kFloat32, Shape{2}, momentum, "zeros"},
                                        {"b", DType::kFloat32, Shape{2}, momentum, "zeros"},
                                        {"rows", DType::kFloat32, Shape{2, 2},
                                         Rule("rowwise_adagrad", {{"epsilon", 0}}), "zeros"}},
                                       1))
                     .ok(),
                 "valid layouts");
  }

  static Envelope<proto::AssignRequest> Setting(
      const std::string& slot, uint64_t update,
      const std::vector<std::pair<uint32_t, Tensor>>& values) {
    Envelope<proto::AssignRequest> request = AssignOf(values);
    request.header.set_slot(slot);
    request.header.set_update(update);
    return request;
  }
  absl::Status Send(Envelope<proto::AssignRequest> request) {
    return cluster_.Call<proto::AssignResponse>(0, kAssign, std::move(request)).status();
  }
  // Pushes a gradient of zeros and returns the value, which the momentum then has moved by half.
  std::vector<float> Moved(uint32_t slice, uint64_t closure) {
    EXPECT_TRUE(cluster_
                    .Push(0, PushOf({.closure = closure},
                                    {{slice, Tensor::Zeros(DType::kFloat32, Shape{2})}}))
                    .ok());
    const Tensor value = (*cluster_.Pull(0, {slice}))[0];
    return {value.span<float>()[0], value.span<float>()[1]};
  }

  PsCluster cluster_{1};
};

Tensor Pair(float a, float b) { return Tensor::FromVector<float>({a, b}, Shape{2}); }

TEST_F(SetSlots, GivesEachSliceItsContentAndLeavesItsValue) {
  ASSERT_TRUE(Send(Setting("momentum", 1, {{2, Pair(8, 16)}, {1, Pair(2, 4)}})).ok());
  EXPECT_EQ((*cluster_.Pull(0, {1}))[0].span<float>()[0], 0);
  EXPECT_THAT(Moved(1, 1), ElementsAre(1, 2));
  EXPECT_THAT(Moved(2, 2), ElementsAre(4, 8));
}

// A repetition that comes late would undo what pushes have done since.
TEST_F(SetSlots, ARepetitionChangesNothing) {
  const auto request = Setting("momentum", 3, {{1, Pair(2, 4)}, {2, Pair(2, 4)}});
  ASSERT_TRUE(Send(request).ok());
  EXPECT_THAT(Moved(1, 1), ElementsAre(1, 2));
  ASSERT_TRUE(Send(request).ok());
  ASSERT_TRUE(Send(Setting("momentum", 2, {{1, Pair(90, 90)}, {2, Pair(6, 6)}})).ok());
  EXPECT_THAT(Moved(1, 2), ElementsAre(1.5, 3));
  EXPECT_THAT(Moved(2, 3), ElementsAre(1, 2));
}

TEST_F(SetSlots, ASlotOfRowsHasOneElementForEach) {
  EXPECT_THAT(
      Send(Setting("accumulator", 1, {{3, Tensor::Zeros(DType::kFloat32, Shape{2, 2})}})).message(),
      HasSubstr("its slot accumulator takes float32[2], the message has type 1 [2,2]"));
  ASSERT_TRUE(Send(Setting("accumulator", 1, {{3, Pair(3, 15)}})).ok());
  // 3 and the mean of the squares, 1, have the root 2.
  const Tensor ones = Tensor::FromVector<float>({1, 1, 1, 1}, Shape{2, 2});
  ASSERT_TRUE(cluster_.Push(0, PushOf({}, {{3, ones}})).ok());
  const Tensor value = (*cluster_.Pull(0, {3}))[0];
  EXPECT_FLOAT_EQ(value.span<float>()[0], -0.5);
  EXPECT_FLOAT_EQ(value.span<float>()[2], -0.25);
}

TEST_F(SetSlots, WhatDoesNotFitIsRefusedBeforeAnythingChanges) {
  const auto refused = [&](Envelope<proto::AssignRequest> request, const std::string& text) {
    const absl::Status status = Send(std::move(request));
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(status.message(), HasSubstr(text));
  };
  refused(Setting("velocity", 1, {{1, Pair(2, 4)}}), "has no slot 'velocity'; it has momentum");
  refused(Setting("momentum", 1, {{1, Pair(2, 4)}, {3, Pair(2, 4)}}), "has no slot 'momentum'");
  refused(Setting("momentum", 1, {{1, Pair(2, 4)}, {2, Tensor::Zeros(DType::kFloat32, Shape{3})}}),
          "takes float32[2]");
  refused(Setting("momentum", 1, {{1, Pair(2, 4)}, {2, Tensor::Zeros(DType::kInt32, Shape{2})}}),
          "takes float32[2]");
  refused(Setting("momentum", 0, {{1, Pair(2, 4)}}), "update 0");
  auto added = Setting("momentum", 1, {{1, Pair(2, 4)}});
  added.header.set_op(proto::CHANGE_ADD);
  refused(added, "as a whole");
  auto with_ids = Setting("momentum", 1, {{1, Pair(2, 4)}});
  with_ids.header.add_ids();
  refused(with_ids, "as a whole");
  auto fewer = Setting("momentum", 1, {{1, Pair(2, 4)}, {2, Pair(2, 4)}});
  fewer.header.mutable_tensors()->RemoveLast();
  refused(fewer, "2 slices with 1 tensors");
  auto shorter = Setting("momentum", 1, {{1, Pair(2, 4)}, {2, Pair(2, 4)}});
  shorter.payload.pop_back();
  refused(shorter, "bytes");
  EXPECT_THAT(Moved(1, 1), ElementsAre(0, 0));
}

Envelope<proto::PullRequest> PullOfSlot(const std::string& slot, std::vector<uint32_t> slices) {
  Envelope<proto::PullRequest> request;
  request.header.set_epoch(kTestEpoch);
  request.header.set_slot(slot);
  request.header.mutable_slice_ids()->Add(slices.begin(), slices.end());
  return request;
}

TEST_F(SetSlots, APullReadsWhatIsThere) {
  ASSERT_TRUE(Send(Setting("momentum", 1, {{2, Pair(8, 16)}, {1, Pair(2, 4)}})).ok());
  EXPECT_THAT(Moved(1, 1), ElementsAre(1, 2));
  const auto answer = cluster_.Call<proto::PullResponse>(0, kPull, PullOfSlot("momentum", {2, 1}));
  ASSERT_TRUE(answer.ok()) << answer.status();
  PayloadReader reader(answer->payload);
  ASSERT_EQ(answer->header.tensors_size(), 2);
  const auto second = reader.ReadTensor(answer->header.tensors(0));
  const auto first = reader.ReadTensor(answer->header.tensors(1));
  ASSERT_TRUE(second.ok() && first.ok());
  EXPECT_THAT(second->span<float>(), ElementsAre(8, 16));
  EXPECT_THAT(first->span<float>(), ElementsAre(1, 2));  // half of what was set
  EXPECT_EQ(answer->header.versions(1), 1u);
  const auto rows = cluster_.Call<proto::PullResponse>(0, kPull, PullOfSlot("accumulator", {3}));
  ASSERT_TRUE(rows.ok()) << rows.status();
  ASSERT_EQ(rows->header.tensors_size(), 1);
  EXPECT_EQ(rows->header.tensors(0).dims_size(), 1);
  EXPECT_EQ(rows->header.tensors(0).dims(0), 2);
}

TEST_F(SetSlots, APullOfASlotAsksForNothingElse) {
  const auto refused = [&](const Envelope<proto::PullRequest>& request, const std::string& text) {
    const absl::Status status = cluster_.Call<proto::PullResponse>(0, kPull, request).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(status.message(), HasSubstr(text));
  };
  refused(PullOfSlot("velocity", {1}), "has no slot 'velocity'; it has momentum");
  refused(PullOfSlot("momentum", {1, 3}), "has no slot 'momentum'");
  auto narrow = PullOfSlot("momentum", {1});
  narrow.header.set_value_dtype(static_cast<int32_t>(DType::kFloat16));
  refused(narrow, "as a whole");
  auto in_round = PullOfSlot("momentum", {1});
  in_round.header.set_round(1);
  refused(in_round, "round 1");
}

TEST_F(SetSlots, ACallOfAnOldEpochIsStale) {
  auto request = Setting("momentum", 1, {{1, Pair(2, 4)}});
  request.header.set_epoch(kTestEpoch - 1);
  EXPECT_EQ(ClassOf(Send(std::move(request))), proto::STALE);
  EXPECT_THAT(Moved(1, 1), ElementsAre(0, 0));
}

}  // namespace
}  // namespace cohort
