// A rank that neither reads nor dies: those that give it up get their memory back at once.

#include <gtest/gtest.h>

#include "common/base/real_clock.h"
#include "common/base/thread_pool.h"
#include "common/wire/grpc/grpc_transport.h"
#include "common/wire/route/joined_transport.h"
#include "tests/support/fault_proxy.h"
#include "tests/unit/worker/collective/conformance/cases.h"
#include "tests/unit/worker/collective/lane_groups.h"
#include "tests/unit/worker/collective/over_tcp.h"

namespace cohort {
namespace {

// Its server is reached through a proxy, which passes nothing on while it stands: so bytes are read
// by nobody, and the connections live. Thread-safe.
class StandingTransport final : public Transport {
 public:
  explicit StandingTransport(std::unique_ptr<Transport> transport)
      : transport_(std::move(transport)) {}

  absl::StatusOr<std::unique_ptr<Server>> Listen(const std::string& address,
                                                 std::vector<Service> services) override {
    auto server = transport_->Listen(address, std::move(services));
    if (!server.ok()) return server;
    proxy_.SetTarget((*server)->address());
    return std::make_unique<BehindProxy>(*std::move(server), proxy_.address());
  }
  std::shared_ptr<Channel> Connect(const std::string& address, Lane lane) override {
    return transport_->Connect(address, lane);
  }
  void Stand() { proxy_.SetFlow(ProxyFlow::kHold); }
  void GoOn() { proxy_.SetFlow(ProxyFlow::kPass); }

 private:
  class BehindProxy final : public Server {
   public:
    BehindProxy(std::unique_ptr<Server> server, std::string address)
        : server_(std::move(server)), address_(std::move(address)) {}
    std::string address() const override { return address_; }
    void Drain(absl::Duration grace) override { server_->Drain(grace); }

   private:
    const std::unique_ptr<Server> server_;
    const std::string address_;
  };

  const std::unique_ptr<Transport> transport_;
  FaultProxy proxy_;
};

// Real threads, and a transport for each of two ranks. Belongs to the thread of the test.
class TwoHosts final : public LaneWorld {
 public:
  explicit TwoHosts(const ThreadLaneWorld::MakeTransport& make)
      : first_(std::make_unique<JoinedTransport>(make(clock_, *pool_))),
        standing_(new StandingTransport(make(clock_, *pool_))),
        second_(std::make_unique<JoinedTransport>(std::unique_ptr<Transport>(standing_))) {}
  ~TwoHosts() override {
    clock_.Stop();
    first_.reset();
    second_.reset();
    pool_.reset();
  }
  Clock& clock() override { return clock_; }
  Executor& executor() override { return *pool_; }
  Waiter& waiter() override { return waiter_; }
  Transport& TransportOf(int rank) override { return rank == 0 ? *first_ : *second_; }
  std::string ListenAddress(int rank) override { return "127.0.0.1:0"; }
  StandingTransport& second() { return *standing_; }

 private:
  RealClock clock_;
  std::unique_ptr<ThreadPool> pool_ = std::make_unique<ThreadPool>(ThreadPool::Options{"ranks", 3});
  BlockingWaiter waiter_;
  std::unique_ptr<Transport> first_;
  StandingTransport* const standing_;  // in the second
  std::unique_ptr<Transport> second_;
};

CollectiveCall SumOf(int64_t count) {
  CollectiveCall call;
  call.op = CollectiveOp::kAllReduce;
  call.count = count;
  call.name = "w";
  call.algorithm = CollectiveAlgorithm::kTwoShot;
  return call;
}

void GiveUp(const std::shared_ptr<TwoHosts>& world, LaneRanks& ranks) {
  world->second().Stand();
  // More than the sockets' own memory holds.
  std::vector<float> values(8 << 20);
  CollectiveCall call = SumOf(static_cast<int64_t>(values.size()));
  call.output =
      absl::MakeSpan(reinterpret_cast<std::byte*>(values.data()), values.size() * sizeof(float));
  call.input = call.output;
  Event done;
  ranks.Of(0).Start(call, [&](const absl::Status& status) {
    EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable) << status;
    done.Notify();
  });
  ranks.Of(0).Abort(absl::UnavailableError("rank 1 did not beat for 5s"));
  EXPECT_TRUE(world->waiter().Wait(done, absl::Seconds(10))) << "frames are still being sent";
  world->second().GoOn();
  if (!done.HasHappened()) world->waiter().Wait(done, absl::Minutes(1));
}

TEST(SilentRank, WhoGivesItUpHasItsMemoryAtOnceOverTcp) {
  const auto world = std::make_shared<TwoHosts>(OverTcp);
  LaneRanks ranks(world, LaneGroupSpec{2, 1, {}, {}});
  ExpectRight(ranks, CallsOf(2, SumOf(100'000)), 1, Place::kApart, "before");
  GiveUp(world, ranks);
}

#ifndef __SANITIZE_THREAD__  // does not see the locks of Debian's gRPC
TEST(SilentRank, WhoGivesItUpHasItsMemoryAtOnceOverGrpc) {
  const auto world = std::make_shared<TwoHosts>(
      [](Clock&, Executor&) { return std::make_unique<GrpcTransport>(); });
  LaneRanks ranks(world, LaneGroupSpec{2, 1, {}, {}});
  ExpectRight(ranks, CallsOf(2, SumOf(100'000)), 1, Place::kApart, "before");
  GiveUp(world, ranks);
}
#endif

}  // namespace
}  // namespace cohort
