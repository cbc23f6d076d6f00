// One parameter server over a transport: each call, once-only pushes when answers are lost, fences
// and epochs.

#include "ps_server/ps_task.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <limits>

#include "absl/strings/str_cat.h"
#include "common/wire/error_detail.h"
#include "tests/unit/ps_server/ps_test_support.h"

namespace cohort {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// Slice 1: float32[2] that adds what is pushed; 2: an int64 counter; 3: a float32 with SGD.
class PsTaskTest : public testing::Test {
 protected:
  PsTaskTest() {
    const std::vector<VariableSpec> variables = {
        {"sum", DType::kFloat32, Shape{2}, Rule("assign_add", {}), "zeros"},
        {"count", DType::kInt64, Shape{}, Rule("assign_add", {}), "zeros"},
        {"weight", DType::kFloat32, Shape{1}, Rule("sgd", {}), "ones"}};
    layouts_ = LayOut(variables, 1);
    COHORT_CHECK(cluster_.CreateAll(layouts_).ok(), "valid layouts");
  }

  Envelope<proto::PushRequest> SumPush(const PushSpec& spec) {
    return PushOf(spec, {{1, Tensor::FromVector<float>({1, 2}, Shape{2})}});
  }
  std::vector<float> Sum() {
    const Tensor sum = (*cluster_.Pull(0, {1}))[0];
    return {sum.span<float>()[0], sum.span<float>()[1]};
  }
  static void ExpectFromPs(const absl::Status& status, proto::ErrorClass error_class) {
    EXPECT_EQ(ClassOf(status), error_class) << status;
    EXPECT_EQ(DetailOf(status).origin().role(), "ps");
    EXPECT_EQ(DetailOf(status).origin().incarnation(), 900u);
  }

  PsCluster cluster_{1};
  std::vector<proto::VariableLayout> layouts_;
};

TEST_F(PsTaskTest, APushIsSeenByTheNextPull) {
  const absl::StatusOr<proto::PushResponse> answer =
      cluster_.Push(0, PushOf({}, {{2, Tensor::Scalar<int64_t>(5)},
                                   {1, Tensor::FromVector<float>({1, 2}, Shape{2})},
                                   {3, Tensor::FromVector<float>({0.25f}, Shape{1})}}));
  ASSERT_TRUE(answer.ok()) << answer.status();
  EXPECT_EQ(answer->applied(), 3u);
  const std::vector<Tensor> pulled = *cluster_.Pull(0, {3, 2, 1});
  EXPECT_EQ(pulled[0].span<float>()[0], 0.75f);
  EXPECT_EQ(pulled[1].span<int64_t>()[0], 5);
  EXPECT_EQ(pulled[2].span<float>()[1], 2);
}

TEST_F(PsTaskTest, APullSendsTheBufferItself) {
  const auto raw = [&] {
    const auto answer =
        cluster_.Call<proto::PullResponse>(0, "/cohort.proto.PsService/Pull", PullOf({1}));
    return answer->payload[0].data;
  };
  EXPECT_EQ(raw(), raw());
}

// The transport delivers the push, and the caller gives up before the answer: what a lost answer
// looks like.
TEST_F(PsTaskTest, APushWhoseAnswerWasLostIsAppliedOnceWhenItIsSentAgain) {
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(cluster_.Push(0, SumPush({.closure = 4})).ok());
  const proto::PushResponse again = *cluster_.Push(0, SumPush({.closure = 4}));
  EXPECT_EQ(again.applied(), 0u);
  EXPECT_EQ(again.duplicates(), 1u);
  EXPECT_THAT(Sum(), ElementsAre(1, 2));
  const proto::PsStatsResponse stats = cluster_.Stats(0);
  EXPECT_EQ(stats.pushes(), 4u);
  EXPECT_EQ(stats.applied_slices(), 1u);
  EXPECT_EQ(stats.duplicate_slices(), 3u);
  EXPECT_EQ(stats.apply_log_entries(), 1u);
}

TEST_F(PsTaskTest, TwoAttemptsOfOneClosureFromTwoWorkersCountOnce) {
  ASSERT_TRUE(cluster_.Push(0, SumPush({.closure = 4, .worker = 100})).ok());
  Envelope<proto::PushRequest> second = SumPush({.closure = 4, .worker = 200});
  second.header.set_attempt(2);
  EXPECT_EQ(cluster_.Push(0, std::move(second))->duplicates(), 1u);
  EXPECT_THAT(Sum(), ElementsAre(1, 2));
}

TEST_F(PsTaskTest, CreatingAssigningAndFencingAgainChangesNothingMore) {
  ASSERT_TRUE(cluster_.Push(0, SumPush({})).ok());
  ASSERT_TRUE(cluster_.CreateAll(layouts_).ok());
  EXPECT_THAT(Sum(), ElementsAre(1, 2));
  for (int i = 0; i < 2; ++i) {
    ASSERT_TRUE(cluster_
                    .Call<proto::AssignResponse>(
                        0, "/cohort.proto.PsService/Assign",
                        AssignOf({{1, Tensor::FromVector<float>({8, 9}, Shape{2})}}))
                    .ok());
    EXPECT_THAT(Sum(), ElementsAre(8, 9));
  }
}

TEST_F(PsTaskTest, AFencedWorkerIsRefusedAndAnotherOneGoesOn) {
  Envelope<proto::FenceRequest> fence;
  fence.header.set_epoch(kTestEpoch);
  fence.header.add_worker_incarnations(100);
  for (int i = 0; i < 2; ++i) {
    ASSERT_TRUE(
        cluster_.Call<proto::FenceResponse>(0, "/cohort.proto.PsService/Fence", fence).ok());
  }
  const absl::Status refused = cluster_.Push(0, SumPush({.closure = 4, .worker = 100})).status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kFailedPrecondition);
  ExpectFromPs(refused, proto::STALE);
  EXPECT_EQ(DetailOf(refused).closure_id(), 4u);
  EXPECT_TRUE(cluster_.Push(0, SumPush({.closure = 4, .worker = 200})).ok());
  EXPECT_THAT(Sum(), ElementsAre(1, 2));
  EXPECT_EQ(cluster_.Stats(0).refused_pushes(), 1u);
}

TEST_F(PsTaskTest, ALatePushOfADoneClosureIsStale) {
  ASSERT_TRUE(cluster_.Push(0, SumPush({.closure = 4})).ok());
  ASSERT_TRUE(cluster_.Push(0, SumPush({.closure = 9, .watermark = 8})).ok());
  ExpectFromPs(cluster_.Push(0, SumPush({.closure = 4})).status(), proto::STALE);
  EXPECT_THAT(Sum(), ElementsAre(2, 4));
  EXPECT_EQ(cluster_.Stats(0).apply_log_entries(), 1u);
}

TEST_F(PsTaskTest, EveryCallOfAnOldEpochIsRefusedAndTheVariablesSurviveANewCoordinator) {
  ASSERT_TRUE(cluster_.Push(0, SumPush({.closure = 4})).ok());
  ASSERT_TRUE(cluster_.Attach(0, kTestEpoch + 1, kTestCoordinator + 1).ok());
  ExpectFromPs(cluster_.Push(0, SumPush({.closure = 5})).status(), proto::STALE);
  ExpectFromPs(cluster_.Pull(0, {1}).status(), proto::STALE);
  ExpectFromPs(cluster_.CreateAll(layouts_), proto::STALE);
  Message old_epoch{CreateRequest({}).SerializeAsString(), {}};  // epoch is field 1 everywhere
  for (const char* method :
       {"Assign", "HoldShard", "WriteShard", "ReadShard", "ReleaseShard", "StageRestore",
        "WriteStaged", "FetchStaged", "ProbeDirectory", "RestoreShard", "Fence", "GetStats"}) {
    const std::string path = absl::StrCat("/cohort.proto.PsService/", method);
    ExpectFromPs(cluster_.CallRaw(0, path, old_epoch).status(), proto::STALE);
  }
  Envelope<proto::PullRequest> pull = PullOf({1});
  pull.header.set_epoch(kTestEpoch + 1);
  const auto answer = cluster_.Call<proto::PullResponse>(0, "/cohort.proto.PsService/Pull", pull);
  ASSERT_TRUE(answer.ok());
  EXPECT_EQ(answer->header.versions(0), 1u);
  // The closures of the new coordinator count from 1 again.
  Envelope<proto::PushRequest> push = SumPush({.closure = 4});
  push.header.set_epoch(kTestEpoch + 1);
  EXPECT_EQ(cluster_.Push(0, std::move(push))->applied(), 1u);
}

TEST_F(PsTaskTest, AnotherCoordinatorMakesItsVariablesAnewAndCountsFromZero) {
  const auto create = [&](uint64_t epoch, const std::vector<proto::VariableLayout>& layouts) {
    Envelope<proto::CreateVariablesRequest> request{CreateRequest(layouts), {}};
    request.header.set_epoch(epoch);
    return cluster_.Call<proto::CreateVariablesResponse>(
        0, "/cohort.proto.PsService/CreateVariables", std::move(request));
  };
  const auto pull = [&](uint64_t epoch) {
    Envelope<proto::PullRequest> request = PullOf({1});
    request.header.set_epoch(epoch);
    return cluster_.Call<proto::PullResponse>(0, "/cohort.proto.PsService/Pull", request);
  };
  const auto first_float = [](const Envelope<proto::PullResponse>& answer) {
    return Joined(answer.payload, DType::kFloat32, Shape{2}).span<float>()[0];
  };
  ASSERT_TRUE(cluster_.Push(0, SumPush({})).ok());
  ASSERT_EQ(cluster_.Stats(0).pushes(), 1u);
  // The same coordinator, in a later epoch, finds what it has made.
  ASSERT_TRUE(cluster_.Attach(0, kTestEpoch + 1, kTestCoordinator).ok());
  const auto again = create(kTestEpoch + 1, layouts_);
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(again->header.created_slice_ids_size(), 0);
  EXPECT_EQ(again->header.replaced_slices(), 0u);
  EXPECT_EQ(first_float(*pull(kTestEpoch + 1)), 1.0f);
  // Another one, of other variables: nothing of the first is left, and a repetition says so again.
  ASSERT_TRUE(cluster_.Attach(0, kTestEpoch + 2, kTestCoordinator + 1).ok());
  const std::vector<proto::VariableLayout> others =
      LayOut({{"other", DType::kFloat32, Shape{2}, Rule("sgd", {}), "ones"}}, 1);
  for (const int created : {1, 0}) {
    const auto made = create(kTestEpoch + 2, others);
    ASSERT_TRUE(made.ok()) << made.status();
    EXPECT_EQ(made->header.created_slice_ids_size(), created);
    EXPECT_EQ(made->header.replaced_slices(), 3u);
  }
  EXPECT_EQ(first_float(*pull(kTestEpoch + 2)), 1.0f);
  Envelope<proto::PsStatsRequest> stats;
  stats.header.set_epoch(kTestEpoch + 2);
  const auto counted =
      cluster_.Call<proto::PsStatsResponse>(0, "/cohort.proto.PsService/GetStats", stats);
  ASSERT_TRUE(counted.ok()) << counted.status();
  EXPECT_EQ(counted->header.pushes(), 0u);
  EXPECT_EQ(counted->header.pulls(), 1u);
  EXPECT_EQ(counted->header.resident_bytes(), 8u);
}

TEST_F(PsTaskTest, APushIsCheckedAsAWholeBeforeAnySliceChanges) {
  const Tensor good = Tensor::FromVector<float>({1, 2}, Shape{2});
  const auto refused = [&](Envelope<proto::PushRequest> push, const char* text) {
    const absl::Status status = cluster_.Push(0, std::move(push)).status();
    EXPECT_THAT(std::string(status.message()), HasSubstr(text));
    ExpectFromPs(status, proto::APPLICATION);
  };
  refused(PushOf({}, {{1, good}, {7, good}}), "slice 7 is not on ps:0");
  refused(PushOf({}, {{1, good}, {3, good}}), "slice 3 of weight is float32[1]");
  refused(PushOf({}, {{1, good}, {2, Tensor::Scalar<int32_t>(1)}}), "slice 2 of count is int64[]");
  refused(PushOf({}, {{1, good}, {1, good}}), "slice 1 twice");
  Envelope<proto::PushRequest> longer = PushOf({}, {{1, good}});
  longer.payload.push_back(SliceOf(good));
  refused(std::move(longer), "the payload has 16 bytes, its tensors need 8");
  Envelope<proto::PushRequest> shorter = PushOf({}, {{1, good}});
  shorter.payload.clear();
  refused(std::move(shorter), "the payload has 0 bytes");
  refused(SumPush({.closure = 0, .watermark = 0}), "closures count from 1");
  refused(SumPush({.closure = 3, .watermark = 4}), "watermark 4");
  refused(SumPush({.learning_rate = std::numeric_limits<double>::quiet_NaN()}), "learning_rate");
  refused(PushOf({.step = 0}, {{1, good}, {3, Tensor::FromVector<float>({1}, Shape{1})}}),
          "steps count from 1");
  EXPECT_THAT(Sum(), ElementsAre(0, 0));
  EXPECT_EQ(cluster_.Stats(0).apply_log_entries(), 0u);
}

TEST_F(PsTaskTest, StalenessIsTheNumberOfAppliesBetweenPullAndPush) {
  for (uint64_t closure = 1; closure <= 3; ++closure) {
    Envelope<proto::PushRequest> push = SumPush({.closure = closure});
    push.header.mutable_slices(0)->set_pulled_version(closure == 3 ? 0 : closure - 1);
    ASSERT_TRUE(cluster_.Push(0, std::move(push)).ok());
  }
  Envelope<proto::PushRequest> ahead = SumPush({.closure = 4});
  ahead.header.mutable_slices(0)->set_pulled_version(1000);
  ASSERT_TRUE(cluster_.Push(0, std::move(ahead)).ok());
  const proto::PsStatsResponse stats = cluster_.Stats(0);
  EXPECT_EQ(stats.staleness_sum(), 2u);
  EXPECT_EQ(stats.staleness_max(), 2u);
  EXPECT_THAT(stats.staleness_histogram(), ElementsAre(3, 0, 1));
  EXPECT_EQ(stats.bytes_in(), 4u * 8);
}

TEST_F(PsTaskTest, StalenessIsCountedByPowersOfTwo) {
  // Closure n was pulled before the first push: n - 1 came in between.
  for (uint64_t closure = 1; closure <= 9; ++closure) {
    ASSERT_TRUE(cluster_.Push(0, SumPush({.closure = closure})).ok());
  }
  EXPECT_THAT(cluster_.Stats(0).staleness_histogram(), ElementsAre(1, 1, 2, 4, 1));
}

TEST_F(PsTaskTest, ALargePushGoesThroughTheExecutorWithTheSameResult) {
  const int64_t rows = 3 * static_cast<int64_t>(kInlineBytesMax) / 4;
  auto layouts = layouts_;
  layouts.push_back(
      LayOut({{"big", DType::kFloat32, Shape{rows}, Rule("assign_add", {}), "zeros"}}, 1)[0]);
  layouts.back().mutable_slices(0)->set_slice_id(50);
  ASSERT_TRUE(cluster_.CreateAll(layouts).ok());
  Tensor gradient(DType::kFloat32, Shape{rows});
  for (int64_t i = 0; i < rows; ++i) gradient.mutable_data<float>()[i] = static_cast<float>(i);
  ASSERT_TRUE(cluster_.Push(0, PushOf({}, {{50, gradient}})).ok());
  const Tensor pulled = (*cluster_.Pull(0, {50}))[0];
  EXPECT_EQ(std::memcmp(pulled.raw(), gradient.raw(), gradient.num_bytes()), 0);
}

TEST_F(PsTaskTest, ADrainedTaskRefusesCallsAndReportsIt) {
  cluster_.task(0).Drain(absl::Seconds(5));
  EXPECT_EQ(cluster_.Pull(0, {1}).status().code(), absl::StatusCode::kUnavailable);
}

}  // namespace
}  // namespace cohort
