// Results of closures as arguments of others, which tf.distribute refuses. What is expected is the
// result itself, and the rules of every other closure.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/wire/error_detail.h"
#include "tests/sim/sim_cluster.h"
#include "tests/support/test_programs.h"

namespace cohort {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

class ChainedClosures : public testing::Test {
 protected:
  void SetUp() override { Connect({}); }

  void Connect(ClusterCoordinator::Options options) {
    coordinator.reset();
    auto connected = cluster.Connect(std::move(options));
    ASSERT_TRUE(connected.ok()) << connected.status();
    coordinator = *std::move(connected);
    echo = MustRegister(EchoProgram());
    picky = MustRegister(PickyProgram());
  }

  ProgramHandle MustRegister(const proto::Program& program) {
    auto registered = coordinator->Register(program);
    EXPECT_TRUE(registered.ok()) << registered.status();
    return registered.ok() ? *registered : nullptr;
  }

  RemoteValue MustSchedule(const ProgramHandle& program, Argument argument) {
    auto value = coordinator->Schedule(program, {{std::move(argument)}});
    EXPECT_TRUE(value.ok()) << value.status();
    return *value;
  }

  static Tensor OneTwo() { return Tensor::FromVector<float>({1, 2}, Shape{2}); }

  SimCluster cluster{25, /*ps=*/1, /*workers=*/2};
  std::unique_ptr<ClusterCoordinator> coordinator;
  ProgramHandle echo, picky;
};

TEST_F(ChainedClosures, PassTheResultOn) {
  RemoteValue value = MustSchedule(echo, OneTwo());
  for (int i = 0; i < 20; ++i) value = MustSchedule(echo, value);
  const auto fetched = coordinator->Fetch(value);
  ASSERT_TRUE(fetched.ok()) << fetched.status();
  EXPECT_THAT(fetched->at(0).span<float>(), ElementsAre(1, 2));
  EXPECT_TRUE(coordinator->Join().ok());
  // A result that is there already, and whose worker is gone.
  cluster.tasks().Kill({Role::kWorker, 0});
  cluster.tasks().Kill({Role::kWorker, 1});
  const RemoteValue later = MustSchedule(echo, value);
  cluster.tasks().Start({Role::kWorker, 0});
  EXPECT_TRUE(coordinator->Fetch(later).ok());
}

TEST_F(ChainedClosures, FitIntoAQueueOfTwo) {
  ClusterCoordinator::Options options;
  options.queue_bound = 2;
  Connect(std::move(options));
  RemoteValue value = MustSchedule(echo, OneTwo());
  for (int i = 0; i < 20; ++i) value = MustSchedule(echo, value);
  EXPECT_TRUE(coordinator->Join().ok());
  EXPECT_TRUE(coordinator->Fetch(value).ok());
}

TEST_F(ChainedClosures, FailWithTheirInput) {
  const RemoteValue bad = MustSchedule(picky, Tensor::Scalar(1.0f));
  const RemoteValue next = MustSchedule(echo, bad);
  const absl::Status error = coordinator->Join();
  EXPECT_FALSE(error.ok());
  const auto result = coordinator->Fetch(next);
  EXPECT_EQ(ClassOf(result.status()), proto::INPUT) << result.status();
  EXPECT_THAT(std::string(result.status().message()), HasSubstr("an argument of closure 2: "));
  // Also one that is scheduled when the error has long been raised.
  MustSchedule(echo, bad);
  EXPECT_EQ(ClassOf(coordinator->Join()), proto::INPUT);
  EXPECT_TRUE(coordinator->Fetch(MustSchedule(echo, OneTwo())).ok());
}

TEST_F(ChainedClosures, AreCancelledWithTheOthers) {
  cluster.tasks().Kill({Role::kWorker, 0});
  cluster.tasks().Kill({Role::kWorker, 1});
  const RemoteValue first = MustSchedule(echo, OneTwo());
  const RemoteValue second = MustSchedule(echo, first);
  coordinator->Abort(absl::InternalError("boom"));
  EXPECT_EQ(coordinator->Join().message(), "boom");
  EXPECT_EQ(ClassOf(coordinator->Fetch(second).status()), proto::CANCELLED);
  EXPECT_TRUE(*coordinator->Done());
}

TEST_F(ChainedClosures, TakeOnlyResultsOfTheirOwnCoordinator) {
  const RemoteValue value = MustSchedule(echo, OneTwo());
  ASSERT_TRUE(coordinator->Join().ok());
  Connect({});
  EXPECT_THAT(std::string(coordinator->Schedule(echo, {{value}}).status().message()),
              HasSubstr("argument 0 is a RemoteValue of another coordinator"));
  EXPECT_THAT(std::string(coordinator->Schedule(echo, {{RemoteValue()}}).status().message()),
              HasSubstr("argument 0 is a RemoteValue of no closure"));
}

}  // namespace
}  // namespace cohort
