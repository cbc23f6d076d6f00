// A process that stands still for less than its lease, as under SIGSTOP: whoever waits for it with
// a deadline gets an error at that deadline that names it, and nothing is lost when it goes on.

#include "tests/sim/standstill.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>

#include "common/wire/error_detail.h"
#include "tests/sim/sim_cluster.h"
#include "tests/support/counter.h"

namespace cohort {
namespace {

using testing::HasSubstr;

class StandstillTest : public testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    auto connected = cluster.Connect();
    ASSERT_TRUE(connected.ok()) << connected.status();
    coordinator = *std::move(connected);
    const auto made = MakeCounter(*coordinator);
    ASSERT_TRUE(made.ok()) << made.status();
    counter = std::make_unique<Variable>(made->variable);
    increment = made->increment;
  }

  SimCluster cluster{29, /*ps=*/1, /*workers=*/2};
  std::unique_ptr<ClusterCoordinator> coordinator;
  std::unique_ptr<Variable> counter;
  ProgramHandle increment;
};

TEST_P(StandstillTest, IsNamedAtTheDeadlineAndNothingIsLost) {
  constexpr absl::Duration kDeadline = absl::Seconds(2);
  Standstill standstill(cluster.sim(), GetParam(), absl::Seconds(4));  // the lease is 5 s
  cluster.network().SetWatcher(&standstill);
  RemoteValue last;
  for (int i = 0; i < 10; ++i) {
    auto value = coordinator->Schedule(increment, {});
    ASSERT_TRUE(value.ok());
    last = *value;
  }
  const absl::Time start = cluster.sim().Now();
  const absl::Status joined = coordinator->Join(kDeadline);
  EXPECT_EQ(cluster.sim().Now() - start, kDeadline);
  EXPECT_EQ(joined.code(), absl::StatusCode::kDeadlineExceeded) << joined;
  EXPECT_THAT(std::string(joined.message()), HasSubstr(GetParam() + " has been silent for 2s"));
  const proto::TaskRef origin = DetailOf(joined).origin();
  EXPECT_EQ(absl::StrCat(origin.role(), ":", origin.index()), GetParam());
  EXPECT_EQ(ClassOf(joined), proto::TRANSIENT);

  const absl::Status done = coordinator->Join();
  EXPECT_TRUE(done.ok()) << done;
  EXPECT_LT(cluster.sim().Now() - start, absl::Seconds(5));
  const auto value = coordinator->Read(*counter);
  ASSERT_TRUE(value.ok()) << value.status();
  EXPECT_EQ(*value->data<float>(), 10.0f);
  cluster.sim().RunFor(absl::Seconds(10));
  EXPECT_EQ(coordinator->stats().put_back, 0u) << "nobody was lost";
  EXPECT_EQ(coordinator->stats().recoveries, 0u);
  EXPECT_EQ(coordinator->stats().workers_ready, 2u);
  cluster.network().SetWatcher(nullptr);
}

INSTANTIATE_TEST_SUITE_P(Of, StandstillTest, testing::Values("ps:0", "worker:1"),
                         [](const auto& info) {
                           return info.param == "ps:0" ? "AParameterServer" : "AWorker";
                         });

}  // namespace
}  // namespace cohort
