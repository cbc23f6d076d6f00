// A parameter server that workers cannot reach for a while, and the coordinator can (FT-06): the
// workers get nothing to do meanwhile, nothing is lost, however many closures meet it, however
// often it happens and however long it lasts, and a call that waits says what it waits for.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/match.h"
#include "common/wire/error_detail.h"
#include "common/wire/typed_call.h"
#include "coordinator/schedule/closure.h"
#include "tests/support/counter.h"
#include "tests/support/network/sim_transport.h"
#include "tests/support/test_cluster.h"
#include "tests/support/world/memory_file_system.h"
#include "tests/unit/worker/fault_transport.h"

namespace cohort {
namespace {

constexpr absl::Duration kLease = absl::Seconds(3);  // not the default

class TransientPs : public testing::Test {
 protected:
  void SetUp() override {
    ClusterCoordinator::Options options;
    options.cluster = cluster.spec();
    options.settings = 1;
    options.closures_in_flight = 4;
    options.lease = kLease;
    auto connected = ClusterCoordinator::Connect(WorldOf("chief:0"), waiter, std::move(options));
    ASSERT_TRUE(connected.ok()) << connected.status();
    coordinator = *std::move(connected);
    const auto made = MakeCounter(*coordinator);
    ASSERT_TRUE(made.ok()) << made.status();
    counter = std::make_unique<Variable>(made->variable);
    increment = made->increment;
  }

  // The world of a process start on `host`; workers cannot reach ps:0 while it is away.
  World WorldOf(const std::string& host) {
    transports.push_back(network.TransportOf(host));
    if (host.rfind("worker", 0) == 0) {
      auto faulty = std::make_unique<FaultTransport>(*transports.back());
      faulty->SetFaults([this](const std::string& address, const std::string& method) {
        if (!away || address != "ps0:2222") return Fault::kNone;
        if (absl::StrContains(method, "PsService")) ++refused;  // else it is a probe
        return Fault::kRefuse;
      });
      transports.push_back(std::move(faulty));
    }
    return World{sim, sim, files, *transports.back()};
  }

  void Schedule(int count) {
    for (int i = 0; i < count; ++i) ASSERT_TRUE(coordinator->Schedule(increment, {}).ok());
  }

  SimWorld sim{41};
  MemoryFileSystem files;
  SimNetwork network{sim};
  std::vector<std::unique_ptr<Transport>> transports;  // outlive the tasks
  SimWaiter waiter{sim};
  bool away = false;
  int refused = 0;
  TestCluster cluster{[this] {
    TestCluster::Options options;
    options.world_of = [this](const std::string& host) { return WorldOf(host); };
    options.kill_host = [this](const std::string& host) { network.Kill(host); };
    return options;
  }()};
  std::unique_ptr<ClusterCoordinator> coordinator;
  std::unique_ptr<Variable> counter;
  ProgramHandle increment;
};

TEST_F(TransientPs, AwayForLessThanTheLeaseLosesNoClosureHoweverOften) {
  constexpr uint64_t kInFlight = 12;  // of three workers with four closures each
  for (int incident = 1; incident <= 10; ++incident) {
    away = true;
    const int before = refused;
    Schedule(100);
    sim.RunFor(kLease - absl::Milliseconds(100));
    EXPECT_GE(refused - before, static_cast<int>(kInFlight)) << "all of them meet it";
    away = false;
    ASSERT_TRUE(coordinator->Join().ok());
    EXPECT_EQ(*coordinator->Read(*counter)->data<float>(), incident * 100.0f);
  }
  const auto stats = coordinator->stats();
  EXPECT_EQ(stats.done, 1000u);
  EXPECT_EQ(stats.failed, 0u);
  EXPECT_LE(stats.put_back, 10 * kInFlight);
  EXPECT_EQ(stats.workers_ready, 3);
}

TEST_F(TransientPs, AwayForLongerIsWaitedForAndNamed) {
  away = true;
  Schedule(100);
  const absl::Status error = coordinator->Join(absl::Minutes(10));
  EXPECT_EQ(error.code(), absl::StatusCode::kDeadlineExceeded) << error;
  EXPECT_THAT(std::string(error.message()), testing::HasSubstr("no worker reaches ps:0"));
  away = false;
  const absl::Time healed = sim.Now();
  ASSERT_TRUE(coordinator->Join().ok());
  EXPECT_LT(sim.Now() - healed, kLease + absl::Seconds(3));
  EXPECT_EQ(*coordinator->Read(*counter)->data<float>(), 100.0f);
  EXPECT_EQ(coordinator->stats().failed, 0u);
}

// The closure's caller says how long it waits; nothing is done for it afterwards.
TEST_F(TransientPs, AClosureIsNotRepeatedAfterItsDeadline) {
  Schedule(1);
  ASSERT_TRUE(coordinator->Join().ok());
  away = true;
  Envelope<proto::RunClosureRequest> request;
  request.header.set_epoch(1);  // of the first coordinator of these tasks
  request.header.set_closure_id(1000);
  request.header.set_attempt(1);
  request.header.set_program_id(increment->id);
  request.header.set_timeout_ms(1000);
  const World world = WorldOf("chief:1");
  absl::Status answer;
  const absl::Time start = sim.Now();
  const auto call = StartCall<proto::RunClosureResponse>(
      *world.transport.Connect("worker0:2222", Lane::kData),
      "/cohort.proto.WorkerService/RunClosure", std::move(request), absl::Minutes(1),
      [&](absl::StatusOr<Envelope<proto::RunClosureResponse>> response) {
        answer = response.status();
      });
  ASSERT_TRUE(sim.RunUntil([&] { return !answer.ok(); }, absl::Minutes(1)));
  EXPECT_LE(sim.Now() - start, absl::Milliseconds(1010));
  EXPECT_EQ(ClassOf(answer), proto::PS_LOST) << answer;
  refused = 0;
  sim.RunFor(absl::Minutes(1));
  EXPECT_EQ(refused, 0);
}

// Another coordinator took the worker: what the old one sent is not repeated.
TEST_F(TransientPs, AClosureOfAnOldEpochIsNotRepeated) {
  away = true;
  Schedule(4);
  sim.RunFor(absl::Seconds(1));
  EXPECT_GT(refused, 0);
  ClusterCoordinator::Options options;
  options.cluster = cluster.spec();
  options.settings = 1;
  auto second = ClusterCoordinator::Connect(WorldOf("chief:2"), waiter, std::move(options));
  ASSERT_TRUE(second.ok()) << second.status();
  sim.RunFor(absl::Milliseconds(600));  // every back-off has ended
  refused = 0;
  sim.RunFor(absl::Minutes(1));
  EXPECT_EQ(refused, 0);
}

}  // namespace
}  // namespace cohort
