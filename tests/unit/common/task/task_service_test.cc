#include "common/task/task_service.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <future>

#include "common/base/posix_file_system.h"
#include "common/base/real_clock.h"
#include "common/base/thread_pool.h"
#include "common/wire/error_detail.h"
#include "common/wire/inprocess_transport.h"
#include "common/wire/typed_call.h"

namespace cohort {
namespace {

class TaskServiceTest : public testing::Test {
 protected:
  TaskServiceTest() {
    TaskService::Options options;
    options.task = TaskId{Role::kPs, 2};
    options.incarnation = 5;
    options.on_attach = [this](const proto::AttachRequest& request) {
      attached_ = request.epoch();
    };
    options.on_shutdown = [this] { ++shutdowns_; };
    service_ =
        std::make_unique<TaskService>(World{clock_, pool_, files_, transport_}, std::move(options));
    server_ = *transport_.Listen("ps:0", {service_->service()});
    channel_ = transport_.Connect(server_->address(), Lane::kControl);
  }

  template <typename Response, typename Request>
  std::future<absl::StatusOr<Response>> Start(const char* method, const Request& request) {
    auto result = std::make_shared<std::promise<absl::StatusOr<Response>>>();
    auto future = result->get_future();
    StartCall<Response, Request>(*channel_, absl::StrCat("/cohort.proto.TaskService/", method),
                                 {request, {}}, absl::Minutes(1),
                                 [result](absl::StatusOr<Envelope<Response>> response) {
                                   if (!response.ok()) return result->set_value(response.status());
                                   result->set_value(response->header);
                                 });
    return future;
  }

  absl::StatusOr<proto::AttachResponse> Attach(uint64_t epoch, uint64_t coordinator,
                                               bool lets_go = false) {
    proto::AttachRequest request;
    request.set_epoch(epoch);
    request.set_lets_go(lets_go);
    request.set_coordinator_incarnation(coordinator);
    return Start<proto::AttachResponse>("Attach", request).get();
  }

  std::future<absl::StatusOr<proto::WatchResponse>> Watch(uint64_t epoch, int64_t wait_ms,
                                                          proto::TaskState known = proto::SERVING) {
    proto::WatchRequest request;
    request.set_epoch(epoch);
    request.set_known_state(known);
    request.set_max_wait_ms(wait_ms);
    return Start<proto::WatchResponse>("Watch", request);
  }

  RealClock clock_;
  ThreadPool pool_{{.name = "test", .threads = 2}};
  PosixFileSystem files_;
  InProcessTransport transport_{clock_, pool_};
  std::atomic<uint64_t> attached_{0};
  std::atomic<int> shutdowns_{0};
  std::unique_ptr<TaskService> service_;
  std::unique_ptr<Server> server_;
  std::shared_ptr<Channel> channel_;
};

TEST_F(TaskServiceTest, TellsThePlaceOfItsCoordinatorAndRefusesOneThatIsTooLong) {
  proto::AttachRequest request;
  request.set_epoch(1);
  request.set_coordinator_place(std::string(kPlaceBytesMax + 1, 'x'));
  const auto refused = Start<proto::AttachResponse>("Attach", request).get();
  EXPECT_EQ(refused.status().code(), absl::StatusCode::kInvalidArgument);
  request.set_coordinator_place("process 12 on host h");
  ASSERT_TRUE(Start<proto::AttachResponse>("Attach", request).get().ok());
  const auto status = Start<proto::GetStatusResponse>("GetStatus", proto::GetStatusRequest()).get();
  ASSERT_TRUE(status.ok()) << status.status();
  EXPECT_EQ(status->coordinator_place(), "process 12 on host h");
}

TEST_F(TaskServiceTest, EpochRules) {
  EXPECT_EQ(Attach(0, 1).status().code(), absl::StatusCode::kInvalidArgument);
  auto first = Attach(3, 10);
  ASSERT_TRUE(first.ok()) << first.status();
  EXPECT_EQ(first->held_epoch(), 0u);
  EXPECT_EQ(first->task().incarnation(), 5u);
  EXPECT_EQ(attached_, 3u);

  const absl::Status lower = Attach(2, 10).status();
  EXPECT_EQ(lower.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(ClassOf(lower), proto::STALE);
  EXPECT_EQ(DetailOf(lower).origin().role(), "ps");

  const absl::Status other = Attach(3, 11).status();
  EXPECT_EQ(ClassOf(other), proto::STALE);
  EXPECT_NE(other.message().find("incarnation 10"), absl::string_view::npos) << other;

  EXPECT_TRUE(Attach(3, 10).ok());
  auto higher = Attach(4, 11);
  ASSERT_TRUE(higher.ok());
  EXPECT_EQ(higher->held_epoch(), 3u);
  EXPECT_EQ(attached_, 4u);
  EXPECT_TRUE(service_->CheckEpoch(4).ok());
  EXPECT_EQ(ClassOf(service_->CheckEpoch(3)), proto::STALE);
  EXPECT_EQ(ClassOf(service_->CheckEpoch(5)), proto::STALE);
}

TEST_F(TaskServiceTest, NothingIsServedBeforeAnAttach) {
  EXPECT_EQ(ClassOf(service_->CheckEpoch(0)), proto::STALE);
  EXPECT_EQ(ClassOf(Watch(0, 0).get().status()), proto::STALE);
}

TEST_F(TaskServiceTest, WatchTellsWhomTheTaskDoesNotReach) {
  ASSERT_TRUE(Attach(1, 1).ok());
  auto watch = Watch(1, 60000);
  proto::TaskRef peer;
  peer.set_role("worker");
  peer.set_index(7);
  service_->SetUnreached({peer});
  const auto told = watch.get();
  ASSERT_TRUE(told.ok()) << told.status();
  EXPECT_EQ(told->state(), proto::SERVING);
  ASSERT_EQ(told->unreached_size(), 1);
  EXPECT_EQ(told->unreached(0).index(), 7);
  // Who has not heard of it is told at once; who has waits for the next change.
  EXPECT_EQ(Watch(1, 60000).get()->reach(), told->reach());
  proto::WatchRequest request;
  request.set_epoch(1);
  request.set_known_state(proto::SERVING);
  request.set_known_reach(told->reach());
  request.set_max_wait_ms(60000);
  auto next = Start<proto::WatchResponse>("Watch", request);
  service_->SetUnreached({});
  const auto healed = next.get();
  ASSERT_TRUE(healed.ok()) << healed.status();
  EXPECT_EQ(healed->unreached_size(), 0);
  EXPECT_NE(healed->reach(), told->reach());
}

TEST_F(TaskServiceTest, WatchEndsWhenTheStateChanges) {
  ASSERT_TRUE(Attach(1, 1).ok());
  auto watch = Watch(1, 60000);
  service_->StartLeaving(absl::ZeroDuration());
  const auto state = watch.get();
  ASSERT_TRUE(state.ok()) << state.status();
  EXPECT_EQ(state->state(), proto::DRAINING);
}

// Not by its holder either, which would give it work, and not by another, which keeps its epoch.
TEST_F(TaskServiceTest, ATaskThatEndsIsNotAttached) {
  ASSERT_TRUE(Attach(1, 1).ok());
  service_->StartLeaving(absl::ZeroDuration());
  for (const uint64_t epoch : {1, 2}) {
    const absl::Status refused = Attach(epoch, 1).status();
    EXPECT_EQ(refused.code(), absl::StatusCode::kUnavailable) << refused;
    EXPECT_EQ(ClassOf(refused), proto::TRANSIENT);
    EXPECT_NE(refused.message().find("is shutting down"), absl::string_view::npos) << refused;
  }
  EXPECT_TRUE(service_->CheckEpoch(1).ok());
  service_->Stop();
  EXPECT_EQ(Attach(1, 1).status().code(), absl::StatusCode::kUnavailable);
}

TEST_F(TaskServiceTest, ATaskThatLeavesServesOnUntilItIsLetGo) {
  ASSERT_TRUE(Attach(1, 1, /*lets_go=*/true).ok());
  auto watch = Watch(1, 60000);
  service_->StartLeaving(absl::Hours(1));
  EXPECT_EQ(watch.get()->leaves_in_ms(), 3600000);
  auto again = Watch(1, 60000, proto::DRAINING);
  auto left = std::async(std::launch::async, [&] { service_->WaitToLeave(absl::Hours(1)); });
  EXPECT_EQ(left.wait_for(std::chrono::milliseconds(0)), std::future_status::timeout);
  proto::ShutdownRequest request;
  request.set_epoch(1);
  ASSERT_TRUE(Start<proto::ShutdownResponse>("Shutdown", request).get().ok());
  left.get();
}

TEST_F(TaskServiceTest, NobodyWaitsForTheWordOfACoordinatorThatDoesNotHear) {
  ASSERT_TRUE(Attach(1, 1, /*lets_go=*/true).ok());
  service_->StartLeaving(absl::Hours(1));
  service_->WaitToLeave(absl::Hours(1));  // would be the end of the test
}

TEST_F(TaskServiceTest, ATaskOfACoordinatorThatLetsNobodyGoLeavesAtOnce) {
  ASSERT_TRUE(Attach(1, 1).ok());
  auto watch = Watch(1, 60000);
  service_->StartLeaving(absl::Hours(1));
  EXPECT_EQ(watch.get()->leaves_in_ms(), 0);
  auto again = Watch(1, 60000, proto::DRAINING);
  service_->WaitToLeave(absl::Hours(1));
}

TEST_F(TaskServiceTest, ATaskThatWasReleasedLeavesAtOnce) {
  ASSERT_TRUE(Attach(1, 1, /*lets_go=*/true).ok());
  proto::ReleaseRequest request;
  request.set_epoch(1);
  ASSERT_TRUE(Start<proto::ReleaseResponse>("Release", request).get().ok());
  auto watch = Watch(1, 60000);
  service_->StartLeaving(absl::Hours(1));
  EXPECT_EQ(watch.get()->leaves_in_ms(), 0);
  service_->WaitToLeave(absl::Hours(1));
}

TEST_F(TaskServiceTest, WatchEndsAfterItsWait) {
  ASSERT_TRUE(Attach(1, 1).ok());
  const auto state = Watch(1, 1).get();
  ASSERT_TRUE(state.ok());
  EXPECT_EQ(state->state(), proto::SERVING);
  EXPECT_EQ(state->task().index(), 2);
}

TEST_F(TaskServiceTest, ATakeoverFailsTheOldHoldersWatch) {
  ASSERT_TRUE(Attach(1, 1).ok());
  auto watch = Watch(1, 60000);
  ASSERT_TRUE(Attach(2, 2).ok());
  // STALE when the Watch was open at the takeover, and when it came after.
  const absl::Status ended = watch.get().status();
  EXPECT_EQ(ClassOf(ended), proto::STALE);
  EXPECT_THAT(std::string(ended.message()),
              testing::HasSubstr("epoch 2, held by coordinator incarnation 2 of job '"))
      << "who reads it has to know the new holder";
}

TEST_F(TaskServiceTest, ADyingTaskAnswersItsWatchers) {
  ASSERT_TRUE(Attach(1, 1).ok());
  auto watch = Watch(1, 60000);
  service_.reset();
  EXPECT_EQ(watch.get().status().code(), absl::StatusCode::kUnavailable);
}

TEST_F(TaskServiceTest, ShutdownRunsOnceAndOnlyForTheHolder) {
  ASSERT_TRUE(Attach(2, 1).ok());
  proto::ShutdownRequest request;
  request.set_epoch(1);
  EXPECT_EQ(ClassOf(Start<proto::ShutdownResponse>("Shutdown", request).get().status()),
            proto::STALE);
  request.set_epoch(2);
  EXPECT_TRUE(Start<proto::ShutdownResponse>("Shutdown", request).get().ok());
  EXPECT_TRUE(Start<proto::ShutdownResponse>("Shutdown", request).get().ok());
  server_.reset();  // waits for the handlers
  EXPECT_EQ(shutdowns_, 1);
}

}  // namespace
}  // namespace cohort
