// The tasks and their coordinator on real threads, as in a job of three daemons, but in one process
// and without gRPC: here ThreadSanitizer sees all of it. The order of things is the machine's, so
// expectations are what holds in every order.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "common/base/real_clock.h"
#include "common/base/thread_pool.h"
#include "common/wire/frames/local_socket.h"
#include "common/wire/inprocess_transport.h"
#include "tests/support/counter.h"
#include "tests/support/network/local_transport.h"
#include "tests/support/test_cluster.h"
#include "tests/support/test_programs.h"
#include "tests/support/world/memory_file_system.h"

namespace cohort {
namespace {

struct TransportChoice {
  const char* name;
  // The transport of one process start; nullptr for one in-process transport that all share.
  std::unique_ptr<Transport> (*make)();
};

class ThreadedCluster : public testing::TestWithParam<TransportChoice> {
 protected:
  ThreadedCluster() : cluster_(TaskOptions()) {}

  World NewWorld() {
    transports_.push_back(GetParam().make());
    Transport* const own = transports_.back().get();
    return World{clock_, pool_, files_, own == nullptr ? shared_ : *own};
  }

  TestCluster::Options TaskOptions() {
    TestCluster::Options options;
    options.address_prefix = NewSocketNumber();
    options.world_of = [this](const std::string&) { return NewWorld(); };
    return options;
  }

  void Connect() {
    ClusterCoordinator::Options options;
    options.cluster = cluster_.spec();
    options.attempts_max = options.quarantine_after = 1000;
    auto coordinator = ClusterCoordinator::Connect(NewWorld(), waiter_, std::move(options));
    ASSERT_TRUE(coordinator.ok()) << coordinator.status();
    coordinator_ = *std::move(coordinator);
  }

  RealClock clock_;
  ThreadPool pool_{{"test", 4}};
  MemoryFileSystem files_;
  InProcessTransport shared_{clock_, pool_};
  // Of all process starts; they outlive the tasks.
  std::vector<std::unique_ptr<Transport>> transports_;
  BlockingWaiter waiter_;
  TestCluster cluster_;
  std::unique_ptr<ClusterCoordinator> coordinator_;
};

TEST_P(ThreadedCluster, CountsEveryIncrementOnceWhileWorkersRestart) {
  Connect();
  const auto counter = MakeCounter(*coordinator_);
  ASSERT_TRUE(counter.ok()) << counter.status();
  for (int i = 0; i < 300; ++i) {
    ASSERT_TRUE(coordinator_->Schedule(counter->increment, {}).ok());
    if (i % 100 != 50) continue;
    const TaskId victim{Role::kWorker, i / 100};
    cluster_.Kill(victim);
    cluster_.Start(victim);
  }
  const absl::Status joined = coordinator_->Join();
  ASSERT_TRUE(joined.ok()) << joined;
  const auto value = coordinator_->Read(counter->variable);
  ASSERT_TRUE(value.ok()) << value.status();
  EXPECT_EQ(*value->data<float>(), 300.0f);
}

TEST_P(ThreadedCluster, ThreadsThatScheduleAtOnceGetTheirOwnResults) {
  Connect();
  const auto echo = coordinator_->Register(EchoProgram());
  ASSERT_TRUE(echo.ok()) << echo.status();
  std::vector<std::thread> threads;
  for (int thread = 0; thread < 3; ++thread) {
    threads.emplace_back([&, thread] {
      for (int i = 0; i < 30; ++i) {
        const std::vector<float> sent(static_cast<size_t>(1000 * i + 1), thread * 100.0f + i);
        const Tensor argument = Tensor::FromVector(sent, {1000 * i + 1});
        const auto result = coordinator_->Schedule(*echo, {{argument}, {}});
        ASSERT_TRUE(result.ok()) << result.status();
        const auto fetched = coordinator_->Fetch(*result);
        ASSERT_TRUE(fetched.ok()) << fetched.status();
        ASSERT_TRUE(fetched->at(0).span<float>() == absl::MakeConstSpan(sent));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_TRUE(coordinator_->Join().ok());
}

TEST_P(ThreadedCluster, EveryThreadThatWaitsHearsOfAFailure) {
  Connect();
  const auto picky = coordinator_->Register(PickyProgram());
  ASSERT_TRUE(picky.ok()) << picky.status();
  const Tensor refused = Tensor::FromVector<float>({1}, {1});
  const auto failing = coordinator_->Schedule(*picky, {{refused}, {}});
  ASSERT_TRUE(failing.ok()) << failing.status();
  std::vector<absl::Status> heard(4);
  std::vector<std::thread> threads;
  for (absl::Status& status : heard) {
    threads.emplace_back([&] { status = coordinator_->Fetch(*failing).status(); });
  }
  for (std::thread& thread : threads) thread.join();
  const absl::Status joined = coordinator_->Join();
  EXPECT_FALSE(joined.ok());
  EXPECT_THAT(heard, testing::Each(testing::Property(&absl::Status::code, joined.code())));
}

std::unique_ptr<Transport> NoneOfItsOwn() { return nullptr; }
std::unique_ptr<Transport> WithBlocks() { return std::make_unique<LocalTransport>(); }
std::unique_ptr<Transport> WithoutBlocks() {
  return std::make_unique<LocalTransport>(LocalTransport::Options{kMessageBytesMax, false});
}

INSTANTIATE_TEST_SUITE_P(All, ThreadedCluster,
                         testing::Values(TransportChoice{"InProcess", NoneOfItsOwn},
                                         TransportChoice{"LocalShm", WithBlocks},
                                         TransportChoice{"LocalUnix", WithoutBlocks}),
                         [](const testing::TestParamInfo<TransportChoice>& info) {
                           return info.param.name;
                         });

}  // namespace
}  // namespace cohort
