// Synchronous pushes at one parameter server. Expectations: means of small whole numbers, which
// floats hold exactly; RMSprop on the mean, applied by the kernel itself.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>

#include "common/wire/error_detail.h"
#include "tests/support/world/memory_file_system.h"
#include "tests/unit/ps_server/ps_test_support.h"

namespace cohort {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr auto kMean = proto::AGGREGATION_MEAN;

// Slice 1 adds, 2 is a whole number without aggregation, 3 has RMSprop, 4 adds rows.
class RoundsTest : public testing::Test {
 protected:
  RoundsTest() {
    const std::vector<VariableSpec> variables = {
        {"sum", DType::kFloat32, Shape{2}, Rule("assign_add", {}), "zeros", kMean},
        {"count", DType::kInt64, Shape{}, Rule("assign_add", {}), "zeros"},
        {"weight", DType::kFloat32, Shape{1}, Rule("rmsprop", {{"momentum", 0.5}}), "ones"},
        {"rows", DType::kFloat32, Shape{4, 1}, Rule("assign_add", {}), "zeros", kMean}};
    layouts_ = LayOut(variables, 1);
    COHORT_CHECK(cluster_.CreateAll(layouts_).ok(), "valid layouts");
  }

  struct Of {
    uint64_t closure = 1;
    uint64_t round = 1;
    uint32_t aggregate = 2;
    uint64_t watermark = 1;
  };
  static Envelope<proto::PushRequest> InRound(Envelope<proto::PushRequest> push, const Of& of) {
    push.header.set_closure_id(of.closure);
    push.header.set_watermark(of.watermark);
    push.header.set_round(of.round);
    push.header.set_step(of.round);
    push.header.set_aggregate(of.aggregate);
    return push;
  }
  static Tensor One(float value) { return Tensor::FromVector<float>({value}, Shape{1}); }
  // Pushes {value, -value} to `sum`.
  proto::PushResponse Add(float value, const Of& of) {
    const auto answer = cluster_.Push(
        0, InRound(PushOf({}, {{1, Tensor::FromVector<float>({value, -value}, Shape{2})}}), of));
    EXPECT_TRUE(answer.ok()) << answer.status();
    return answer.value_or(proto::PushResponse());
  }
  std::vector<float> Values(uint32_t slice) {
    const Tensor value = (*cluster_.Pull(0, {slice}))[0];
    return {value.span<float>().begin(), value.span<float>().end()};
  }
  absl::Status Save(const std::string& prefix) {
    const auto saved = cluster_.SaveShard(0, HoldRequest(prefix));
    if (!saved.ok()) return saved.status();
    return WriteIndex(files_, prefix, 1, *saved);
  }
  void GoBackTo(const std::string& prefix) {
    ASSERT_TRUE(cluster_.Attach(0, kTestEpoch + 1, kTestCoordinator).ok());
    Envelope<proto::RestoreShardRequest> request;
    request.header.set_epoch(kTestEpoch + 1);
    request.header.set_prefix(prefix);
    request.header.set_applied(true);
    request.header.set_watermark(1);
    ASSERT_TRUE(cluster_
                    .Call<proto::RestoreShardResponse>(0, "/cohort.proto.PsService/RestoreShard",
                                                       std::move(request))
                    .ok());
    // Pulls of the test are of the first epoch.
    epoch_ = kTestEpoch + 1;
  }
  std::vector<float> SumNow() {
    Envelope<proto::PullRequest> request = PullOf({1});
    request.header.set_epoch(epoch_);
    const auto answer =
        cluster_.Call<proto::PullResponse>(0, "/cohort.proto.PsService/Pull", std::move(request));
    const Tensor sum = *PayloadReader(answer->payload).ReadTensor(answer->header.tensors(0));
    return {sum.span<float>()[0], sum.span<float>()[1]};
  }
  proto::PushResponse AddNow(float value, const Of& of) {
    auto push = InRound(PushOf({}, {{1, Tensor::FromVector<float>({value, 0}, Shape{2})}}), of);
    push.header.set_epoch(epoch_);
    return cluster_.Push(0, std::move(push)).value_or(proto::PushResponse());
  }

  MemoryFileSystem files_;
  PsCluster cluster_{1, files_};
  std::vector<proto::VariableLayout> layouts_;
  uint64_t epoch_ = kTestEpoch;
};

TEST_F(RoundsTest, TheMeanOfTheFirstIsAppliedOnceAndTheRestIsDropped) {
  const proto::PushResponse first = Add(3, {.closure = 1});
  EXPECT_EQ(first.applied(), 1u);
  EXPECT_EQ(first.open_rounds(), 1u);
  EXPECT_THAT(Values(1), ElementsAre(0, 0)) << "it waits for another one";
  const proto::PushResponse repeated = Add(3, {.closure = 1});
  EXPECT_EQ(repeated.duplicates(), 1u);
  EXPECT_EQ(repeated.open_rounds(), 1u);
  const proto::PushResponse second = Add(5, {.closure = 3});
  EXPECT_EQ(second.applied(), 1u);
  EXPECT_EQ(second.open_rounds(), 0u);
  EXPECT_THAT(Values(1), ElementsAre(4, -4));
  const proto::PushResponse late = Add(100, {.closure = 2});
  EXPECT_EQ(late.dropped(), 1u);
  EXPECT_EQ(late.applied() + late.duplicates() + late.open_rounds(), 0u);
  EXPECT_EQ(Add(100, {.closure = 2}).duplicates(), 1u) << "that it was dropped is known";
  EXPECT_EQ(Add(3, {.closure = 1}).duplicates(), 1u);
  // The next round.
  Add(1, {.closure = 4, .round = 2, .watermark = 4});
  EXPECT_EQ(Add(100, {.closure = 5, .round = 1, .watermark = 4}).dropped(), 1u);
  Add(3, {.closure = 6, .round = 2, .watermark = 4});
  EXPECT_THAT(Values(1), ElementsAre(6, -6));
  const proto::PsStatsResponse stats = cluster_.Stats(0);
  EXPECT_EQ(stats.applied_slices(), 2u) << "one update a round";
  EXPECT_EQ(stats.dropped_slices(), 2u);
  EXPECT_EQ(stats.duplicate_slices(), 3u);
}

// An error has ended the other step of the round: what is kept is applied when it comes again as a
// smaller round.
TEST_F(RoundsTest, APushThatIsKeptIsAppliedWhenItIsEnoughByNow) {
  EXPECT_EQ(Add(3, {.closure = 1}).open_rounds(), 1u);
  const proto::PushResponse enough = Add(3, {.closure = 1, .aggregate = 1});
  EXPECT_EQ(enough.applied(), 1u);
  EXPECT_EQ(enough.open_rounds() + enough.duplicates(), 0u);
  EXPECT_THAT(Values(1), ElementsAre(3, -3)) << "once";
  EXPECT_EQ(Add(3, {.closure = 1, .aggregate = 1}).duplicates(), 1u);
  EXPECT_THAT(Values(1), ElementsAre(3, -3));
}

TEST_F(RoundsTest, AnOptimizerSeesTheMeanAndTheRoundAsItsStep) {
  PsCluster alone(1);
  ASSERT_TRUE(alone.CreateAll(layouts_).ok());
  for (uint64_t round = 1; round <= 3; ++round) {
    for (uint64_t i = 0; i < 4; ++i) {
      const float value = static_cast<float>(i) - static_cast<float>(round);
      ASSERT_TRUE(cluster_
                      .Push(0, InRound(PushOf({}, {{3, One(value)}}),
                                       {.closure = 4 * round + i, .round = round, .aggregate = 4}))
                      .ok());
    }
    const float mean = 1.5f - static_cast<float>(round);
    ASSERT_TRUE(alone.Push(0, PushOf({.closure = round, .step = round}, {{3, One(mean)}})).ok());
  }
  EXPECT_EQ(Values(3)[0], (*alone.Pull(0, {3}))[0].span<float>()[0]);
}

TEST_F(RoundsTest, TheBitsDoNotDependOnTheOrderOfArrival) {
  std::vector<uint64_t> order = {1, 2, 3, 4};
  std::vector<float> sums;
  do {
    PsCluster cluster(1);
    ASSERT_TRUE(cluster.CreateAll(layouts_).ok());
    for (const uint64_t closure : order) {
      // Sums of these depend on their order.
      const float value = std::vector<float>{1e8f, -1e8f, 0.3f, 0.4f}[closure - 1];
      const auto push = PushOf({}, {{1, Tensor::FromVector<float>({value, 0}, Shape{2})}});
      ASSERT_TRUE(cluster.Push(0, InRound(push, {.closure = closure, .aggregate = 4})).ok());
    }
    sums.push_back((*cluster.Pull(0, {1}))[0].span<float>()[0]);
  } while (std::next_permutation(order.begin(), order.end()));
  ASSERT_EQ(sums.size(), 24u);
  EXPECT_THAT(sums, testing::Each(sums[0]));
}

TEST_F(RoundsTest, RowsOfARoundAreAveragedOverAllOfIt) {
  const auto push = [&](uint64_t closure, std::vector<int64_t> ids, std::vector<float> values) {
    const Shape shape{static_cast<int64_t>(ids.size()), 1};
    const auto answer = cluster_.Push(
        0, InRound(PushRowsOf({}, {{4, std::move(ids), Tensor::FromVector(values, shape)}}),
                   {.closure = closure, .aggregate = 2}));
    EXPECT_TRUE(answer.ok()) << answer.status();
  };
  push(2, {3, 1}, {8, 2});
  push(1, {1}, {4});
  EXPECT_THAT(Values(4), ElementsAre(0, 3, 0, 4));
}

TEST_F(RoundsTest, ACutHasWholeRoundsAndWhatWasKeptIsPushedAgain) {
  Add(2, {.closure = 1});
  Add(4, {.closure = 2});
  Add(100, {.closure = 3, .round = 2});
  ASSERT_TRUE(Save("/cut").ok());
  Add(100, {.closure = 4, .round = 2});
  EXPECT_THAT(Values(1), ElementsAre(103, -103));
  GoBackTo("/cut");
  EXPECT_THAT(SumNow(), ElementsAre(3, -3));
  // 3 is open in the cut, and 2 too if it was answered late: round 1 is in it.
  EXPECT_EQ(AddNow(4, {.closure = 2}).duplicates(), 1u);
  EXPECT_EQ(AddNow(9, {.closure = 5}).dropped(), 1u);
  EXPECT_EQ(AddNow(10, {.closure = 3, .round = 2}).open_rounds(), 1u) << "it was not in the cut";
  EXPECT_EQ(AddNow(20, {.closure = 4, .round = 2}).open_rounds(), 0u);
  EXPECT_THAT(SumNow(), ElementsAre(18, -3));
}

TEST_F(RoundsTest, WhatIsFencedIsNotInTheMeanOfAnybody) {
  Add(100, {.closure = 1});
  Envelope<proto::FenceRequest> fence;
  fence.header.set_epoch(kTestEpoch);
  fence.header.set_watermark(2);
  ASSERT_TRUE(
      cluster_.Call<proto::FenceResponse>(0, "/cohort.proto.PsService/Fence", std::move(fence))
          .ok());
  Add(2, {.closure = 2, .watermark = 2});
  EXPECT_THAT(Values(1), ElementsAre(0, 0));
  Add(4, {.closure = 3, .watermark = 2});
  EXPECT_THAT(Values(1), ElementsAre(3, -3));
  // So it is with a round that its coordinator gave up.
  Add(100, {.closure = 4, .round = 2, .watermark = 2});
  Add(2, {.closure = 5, .round = 3, .watermark = 2});
  EXPECT_EQ(Add(100, {.closure = 6, .round = 2, .watermark = 2}).dropped(), 1u);
  Add(2, {.closure = 7, .round = 3, .watermark = 2});
  EXPECT_THAT(Values(1), ElementsAre(5, -5));
}

// A step of the round reads what was before it, as long as the round is not over.
TEST_F(RoundsTest, AStepThatRunsAgainReadsWhatWasBeforeItsRound) {
  const auto read = [&](uint64_t round) {
    Envelope<proto::PullRequest> request = PullOf({1});
    request.header.set_round(round);
    const auto answer =
        cluster_.Call<proto::PullResponse>(0, "/cohort.proto.PsService/Pull", std::move(request));
    const Tensor sum = *PayloadReader(answer->payload).ReadTensor(answer->header.tensors(0));
    return std::pair(sum.span<float>()[0], answer->header.versions(0));
  };
  Add(1, {.closure = 1});
  EXPECT_EQ(read(1), std::pair(0.0f, uint64_t{0}));
  Add(5, {.closure = 2});
  EXPECT_EQ(read(1), std::pair(0.0f, uint64_t{0})) << "another slice may wait for it";
  EXPECT_EQ(read(2), std::pair(3.0f, uint64_t{1}));
  EXPECT_EQ(read(0), std::pair(3.0f, uint64_t{1}));
  Add(1, {.closure = 3, .round = 2});
  EXPECT_EQ(read(1), std::pair(3.0f, uint64_t{1})) << "late: it counts nowhere";
  Add(1, {.closure = 4, .round = 2});
  EXPECT_EQ(read(2), std::pair(3.0f, uint64_t{1}));
  EXPECT_EQ(read(3), std::pair(4.0f, uint64_t{2}));
}

TEST_F(RoundsTest, WhatCannotBeOneUpdateIsRefused) {
  const auto refused = [&](Envelope<proto::PushRequest> push, const std::string& why) {
    const absl::Status status = cluster_.Push(0, std::move(push)).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr(why));
  };
  refused(InRound(PushOf({}, {{2, Tensor::Scalar<int64_t>(1)}}), {}),
          "variable 'count' is added to in replica context");
  refused(InRound(PushOf({}, {{3, One(1)}}), {.aggregate = 0}), "aggregate is 0");
  const Tensor zeros = Tensor::Zeros(DType::kFloat32, Shape{4, 1});
  ASSERT_TRUE(cluster_.Push(0, InRound(PushOf({}, {{4, zeros}}), {})).ok());
  refused(InRound(PushRowsOf({}, {{4, {1}, Tensor::Zeros(DType::kFloat32, Shape{1, 1})}}),
                  {.closure = 2}),
          "pushes of two kinds");
  const auto assign = [](Envelope<proto::PushRequest> push) {
    push.header.mutable_slices(0)->set_assign(true);
    return push;
  };
  refused(assign(InRound(PushOf({}, {{4, zeros}}), {.closure = 2})), "pushes of two kinds");
  refused(assign(InRound(PushOf({}, {{3, One(1)}}), {})), "variable 'weight' is assigned to");
  refused(assign(PushOf({}, {{4, zeros}})), "assign is for whole slices, and in a round");
}

// Two replicas; what they bring and what becomes of it, for each mode.
class Aggregated : public testing::Test {
 protected:
  template <typename T>
  struct Case {
    proto::VariableAggregation how;
    bool assign;
    std::vector<T> becomes;
  };

  // The value starts at ones; the second replica comes first.
  template <typename T>
  std::vector<T> Apply(const Case<T>& test, const std::vector<std::vector<T>>& replicas) {
    PsCluster cluster(1);
    const VariableSpec spec = {"v",    DTypeOf<T>::value, Shape{2}, Rule("assign_add", {}),
                               "ones", test.how};
    EXPECT_TRUE(cluster.CreateAll(LayOut({spec}, 1)).ok());
    for (const uint64_t closure : {2, 1}) {
      Envelope<proto::PushRequest> push =
          PushOf({}, {{1, Tensor::FromVector<T>(replicas[closure - 1], Shape{2})}});
      push.header.set_closure_id(closure);
      push.header.set_round(1);
      push.header.set_aggregate(2);
      push.header.mutable_slices(0)->set_assign(test.assign);
      const auto answer = cluster.Push(0, std::move(push));
      EXPECT_TRUE(answer.ok()) << answer.status();
    }
    const Tensor value = (*cluster.Pull(0, {1}))[0];
    return {value.span<T>().begin(), value.span<T>().end()};
  }
};

TEST_F(Aggregated, WhatReplicasAssignOrAddIsOneUpdate) {
  const std::vector<Case<float>> floats = {{proto::AGGREGATION_SUM, true, {4, -1}},
                                           {proto::AGGREGATION_MEAN, true, {2, -0.5}},
                                           {proto::AGGREGATION_ONLY_FIRST_REPLICA, true, {1, 4}},
                                           {proto::AGGREGATION_SUM, false, {5, 0}},
                                           {proto::AGGREGATION_MEAN, false, {3, 0.5}},
                                           {proto::AGGREGATION_ONLY_FIRST_REPLICA, false, {2, 5}}};
  for (const auto& test : floats) {
    EXPECT_EQ(Apply<float>(test, {{1, 4}, {3, -5}}), test.becomes) << test.how << test.assign;
  }
  const int64_t large = std::numeric_limits<int64_t>::max();
  const std::vector<Case<int64_t>> whole_numbers = {
      {proto::AGGREGATION_SUM, true, {-4, 12}},  // the sum wraps around
      {proto::AGGREGATION_ONLY_FIRST_REPLICA, true, {large - 1, 5}},
      {proto::AGGREGATION_SUM, false, {-3, 13}},
      {proto::AGGREGATION_ONLY_FIRST_REPLICA, false, {large, 6}}};
  for (const auto& test : whole_numbers) {
    EXPECT_EQ(Apply<int64_t>(test, {{large - 1, 5}, {large - 1, 7}}), test.becomes)
        << test.how << test.assign;
  }
}

TEST_F(Aggregated, RowsOfOneReplicaOrOfAllAreAdded) {
  for (const auto& [how, becomes] :
       std::vector<std::pair<proto::VariableAggregation, std::vector<int32_t>>>{
           {proto::AGGREGATION_SUM, {0, 12, 0, 2}},
           {proto::AGGREGATION_ONLY_FIRST_REPLICA, {0, 10, 0, 0}}}) {
    PsCluster cluster(1);
    const VariableSpec spec = {"v", DType::kInt32, Shape{4}, Rule("assign_add", {}), "zeros", how};
    ASSERT_TRUE(cluster.CreateAll(LayOut({spec}, 1)).ok());
    const auto push = [&](uint64_t closure, std::vector<int64_t> ids, std::vector<int32_t> add) {
      const Shape shape{static_cast<int64_t>(ids.size())};
      auto request = PushRowsOf({}, {{1, std::move(ids), Tensor::FromVector(add, shape)}});
      request.header.set_closure_id(closure);
      request.header.set_round(1);
      request.header.set_aggregate(2);
      ASSERT_TRUE(cluster.Push(0, std::move(request)).ok());
    };
    push(2, {3, 1}, {2, 2});
    push(1, {1}, {10});
    const Tensor value = (*cluster.Pull(0, {1}))[0];
    EXPECT_EQ(std::vector<int32_t>(value.span<int32_t>().begin(), value.span<int32_t>().end()),
              becomes);
  }
}

TEST_F(Aggregated, AModeThatIsNoneOrDoesNotFitIsRefused) {
  const auto error = [](DType dtype, proto::VariableAggregation how) {
    PsCluster cluster(1);
    return std::string(
        cluster.CreateAll(LayOut({{"v", dtype, Shape{}, Rule("assign_add", {}), "zeros", how}}, 1))
            .message());
  };
  EXPECT_THAT(error(DType::kInt64, kMean), HasSubstr("whole numbers have none; use SUM"));
  EXPECT_THAT(error(DType::kFloat32, static_cast<proto::VariableAggregation>(7)),
              HasSubstr("invalid variable aggregation mode 7"));
}

}  // namespace
}  // namespace cohort
