// Every wait has a deadline and says what it waits for (CC-14): waits of tf.distribute have none.
// The clock is simulated, so the time that a call takes is exact.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/wire/error_detail.h"
#include "tests/sim/sim_cluster.h"
#include "tests/support/counter.h"

namespace cohort {
namespace {

using testing::HasSubstr;

class Deadlines : public testing::Test {
 protected:
  void SetUp() override {
    ClusterCoordinator::Options options;
    options.queue_bound = 2;
    auto connected = cluster.Connect(std::move(options));
    ASSERT_TRUE(connected.ok()) << connected.status();
    coordinator = *std::move(connected);
    const auto made = MakeCounter(*coordinator);
    ASSERT_TRUE(made.ok()) << made.status();
    counter = std::make_unique<Variable>(made->variable);
    increment = made->increment;
    ASSERT_TRUE(coordinator->Schedule(increment, {}).ok());
    ASSERT_TRUE(coordinator->Join().ok());
    cluster.tasks().Kill({Role::kWorker, 0});
    cluster.sim().RunFor(absl::Seconds(10));  // until nobody serves
  }

  void BringTheWorkerBack() { cluster.tasks().Start({Role::kWorker, 0}); }

  float Count() {
    auto value = coordinator->Read(*counter);
    EXPECT_TRUE(value.ok()) << value.status();
    return value.ok() ? *value->data<float>() : -1;
  }

  // Runs `call`, which has a deadline of 3 s, and takes exactly those.
  template <typename Call>
  std::string MessageAfterThreeSeconds(Call call) {
    const absl::Time start = cluster.sim().Now();
    const absl::Status status = call();
    EXPECT_EQ(cluster.sim().Now() - start, absl::Seconds(3));
    EXPECT_EQ(status.code(), absl::StatusCode::kDeadlineExceeded) << status;
    return std::string(status.message());
  }

  SimCluster cluster{23, /*ps=*/1, /*workers=*/1};
  std::unique_ptr<ClusterCoordinator> coordinator;
  std::unique_ptr<Variable> counter;
  ProgramHandle increment;
};

TEST_F(Deadlines, OfJoin) {
  ASSERT_TRUE(coordinator->Schedule(increment, {}).ok());
  const std::string message =
      MessageAfterThreeSeconds([&] { return coordinator->Join(absl::Seconds(3)); });
  EXPECT_THAT(message, HasSubstr("waited 3s for all closures to end: 1 closures queued"));
  EXPECT_THAT(message, HasSubstr("worker:0 lost"));
  // A Join that gave up is no cut any more.
  ASSERT_TRUE(
      coordinator->Schedule(increment, {.arguments = {}, .queue_timeout = absl::Seconds(3)}).ok());
  BringTheWorkerBack();
  ASSERT_TRUE(coordinator->Join().ok());
  EXPECT_EQ(Count(), 3.0f);
}

TEST_F(Deadlines, OfFetch) {
  auto value = coordinator->Schedule(increment, {});
  ASSERT_TRUE(value.ok());
  const std::string message = MessageAfterThreeSeconds(
      [&] { return coordinator->Fetch(*value, absl::Seconds(3)).status(); });
  EXPECT_THAT(message, HasSubstr("waited 3s for the result of a closure: 1 closures queued"));
  EXPECT_THAT(message, HasSubstr("worker:0 lost"));
  BringTheWorkerBack();
  EXPECT_TRUE(coordinator->Fetch(*value).ok());
}

TEST_F(Deadlines, OfScheduleWhileTheQueueIsFull) {
  for (int i = 0; i < 2; ++i) ASSERT_TRUE(coordinator->Schedule(increment, {}).ok());
  ScheduleOptions options;
  options.queue_timeout = absl::Seconds(3);
  const std::string message =
      MessageAfterThreeSeconds([&] { return coordinator->Schedule(increment, options).status(); });
  EXPECT_THAT(message, HasSubstr("waited 3s for room in the queue: 2 closures queued"));
  BringTheWorkerBack();
  ASSERT_TRUE(coordinator->Join().ok());
  EXPECT_EQ(Count(), 3.0f) << "what was not admitted never runs";
}

TEST_F(Deadlines, OfAClosureThatIsQueued) {
  ScheduleOptions options;
  options.timeout = absl::Seconds(3);
  const auto value = coordinator->Schedule(increment, options);
  ASSERT_TRUE(value.ok());
  const std::string message = MessageAfterThreeSeconds([&] { return coordinator->Join(); });
  EXPECT_THAT(message, HasSubstr("closure 2 was still queued at its deadline, after 0 attempts"));
  EXPECT_EQ(coordinator->Fetch(*value).status().message(), message);
  BringTheWorkerBack();
  cluster.sim().RunFor(absl::Seconds(10));
  EXPECT_EQ(Count(), 1.0f);
}

TEST_F(Deadlines, OfAClosureInFlight) {
  BringTheWorkerBack();
  cluster.sim().RunFor(absl::Seconds(10));
  cluster.network().Cut("worker:0", "ps:0");  // its pull waits
  ScheduleOptions options;
  options.timeout = absl::Seconds(3);
  ASSERT_TRUE(coordinator->Schedule(increment, options).ok());
  const absl::Time start = cluster.sim().Now();
  const absl::Status error = coordinator->Join();
  // The fence of the closure takes a call to the ps.
  EXPECT_GE(cluster.sim().Now() - start, absl::Seconds(3));
  EXPECT_LE(cluster.sim().Now() - start, absl::Seconds(3) + absl::Milliseconds(100));
  EXPECT_EQ(error.code(), absl::StatusCode::kDeadlineExceeded) << error;
  EXPECT_THAT(std::string(error.message()),
              HasSubstr("closure 2 was not done at its deadline: attempt 1 was in flight on "
                        "worker:0"));
  EXPECT_EQ(DetailOf(error).origin().role(), "worker");
  cluster.network().HealAll();
  cluster.sim().RunFor(absl::Minutes(1));
  EXPECT_EQ(Count(), 1.0f);
  ASSERT_TRUE(coordinator->Schedule(increment, {}).ok());
  ASSERT_TRUE(coordinator->Join().ok());
  EXPECT_EQ(Count(), 2.0f) << "a slow closure is no dead worker";
}

TEST_F(Deadlines, OfAClosureThatIsDoneInTimeDoNothing) {
  BringTheWorkerBack();
  ScheduleOptions options;
  options.timeout = absl::Seconds(30);
  ASSERT_TRUE(coordinator->Schedule(increment, options).ok());
  ASSERT_TRUE(coordinator->Join().ok());
  cluster.sim().RunFor(absl::Minutes(1));
  EXPECT_TRUE(*coordinator->Done());
  EXPECT_EQ(Count(), 2.0f);
}

}  // namespace
}  // namespace cohort
