// When a task notices that no coordinator comes any more: to the instant, in simulated time.

#include <gtest/gtest.h>

#include "common/task/task_service.h"
#include "common/wire/inprocess_transport.h"
#include "common/wire/typed_call.h"
#include "tests/support/world/memory_file_system.h"
#include "tests/support/world/sim_world.h"

namespace cohort {
namespace {

constexpr absl::Duration kTimeout = absl::Seconds(30);
constexpr absl::Duration kLong = absl::Hours(10);

// Calls arrive and are answered at the instant at which they are made.
class TaskOrphanTest : public testing::Test {
 protected:
  void StartTask(absl::Duration timeout) {
    TaskService::Options options;
    options.task = TaskId{Role::kWorker, 1};
    options.incarnation = 5;
    options.orphan_timeout = timeout;
    options.on_orphaned = [this] {
      ++orphaned_;
      orphaned_at_ = world_.Now();
    };
    service_ = std::make_unique<TaskService>(World{world_, world_, files_, transport_},
                                             std::move(options));
    server_ = *transport_.Listen("worker:0", {service_->service()});
    channel_ = transport_.Connect(server_->address(), Lane::kControl);
  }

  // The call of a method with this request; what it answered is in the status once it has ended.
  template <typename Response, typename Request>
  std::shared_ptr<absl::Status> Call(const char* method, const Request& request) {
    auto result = std::make_shared<absl::Status>(absl::UnknownError("open"));
    StartCall<Response, Request>(
        *channel_, absl::StrCat("/cohort.proto.TaskService/", method), {request, {}}, kLong,
        [result](absl::StatusOr<Envelope<Response>> response) { *result = response.status(); });
    world_.RunFor(absl::ZeroDuration());
    return result;
  }
  absl::Status Attach(uint64_t epoch) {
    proto::AttachRequest request;
    request.set_epoch(epoch);
    request.set_coordinator_incarnation(epoch);
    return *Call<proto::AttachResponse>("Attach", request);
  }
  std::shared_ptr<absl::Status> Watch(uint64_t epoch, absl::Duration wait) {
    proto::WatchRequest request;
    request.set_epoch(epoch);
    request.set_known_state(proto::SERVING);
    request.set_max_wait_ms(absl::ToInt64Milliseconds(wait));
    return Call<proto::WatchResponse>("Watch", request);
  }

  // Runs for hours: when it was orphaned, since the start.
  absl::Duration OrphanedAfter() {
    world_.RunFor(kLong);
    EXPECT_EQ(orphaned_, 1);
    return orphaned_at_ - start_;
  }

  SimWorld world_{1};
  const absl::Time start_ = world_.Now();
  MemoryFileSystem files_;
  InProcessTransport transport_{world_, world_};
  int orphaned_ = 0;
  absl::Time orphaned_at_;
  std::unique_ptr<TaskService> service_;
  std::unique_ptr<Server> server_;
  std::shared_ptr<Channel> channel_;
};

TEST_F(TaskOrphanTest, NeverWithoutATime) {
  StartTask(absl::ZeroDuration());
  ASSERT_TRUE(Attach(1).ok());
  world_.RunFor(kLong);
  EXPECT_EQ(orphaned_, 0);
}

TEST_F(TaskOrphanTest, WithoutAnyCoordinatorTheTimeCountsFromTheStart) {
  StartTask(kTimeout);
  EXPECT_EQ(OrphanedAfter(), kTimeout);
  EXPECT_EQ(world_.events_run(), 1u) << "one timer, no polling";
}

TEST_F(TaskOrphanTest, AnAttachBeginsTheTimeAnew) {
  StartTask(kTimeout);
  world_.RunFor(absl::Seconds(20));
  ASSERT_TRUE(Attach(1).ok());
  world_.RunFor(absl::Seconds(29));
  ASSERT_TRUE(Attach(1).ok()) << "the holder again";
  EXPECT_EQ(OrphanedAfter(), absl::Seconds(20 + 29) + kTimeout);
}

TEST_F(TaskOrphanTest, ARefusedAttachDoesNotCount) {
  StartTask(kTimeout);
  ASSERT_TRUE(Attach(2).ok());
  world_.RunFor(absl::Seconds(10));
  EXPECT_FALSE(Attach(1).ok());
  EXPECT_EQ(OrphanedAfter(), kTimeout);
}

TEST_F(TaskOrphanTest, AnOpenWatchHoldsItOffAndItsEndBeginsTheTimeAnew) {
  StartTask(kTimeout);
  ASSERT_TRUE(Attach(1).ok());
  world_.RunFor(absl::Seconds(7));
  const auto watch = Watch(1, absl::Minutes(5));
  world_.RunFor(absl::Minutes(5) - absl::Seconds(1));
  EXPECT_EQ(watch->message(), "open");
  EXPECT_EQ(orphaned_, 0);
  EXPECT_EQ(OrphanedAfter(), absl::Seconds(7) + absl::Minutes(5) + kTimeout);
  EXPECT_TRUE(watch->ok());
}

TEST_F(TaskOrphanTest, WatchesThatAreRenewedHoldItOffForEver) {
  StartTask(kTimeout);
  ASSERT_TRUE(Attach(1).ok());
  for (int i = 0; i < 1000; ++i) {
    ASSERT_TRUE(Watch(1, absl::ZeroDuration())->ok()) << "answered at once";
    world_.RunFor(kTimeout - absl::Milliseconds(1));
  }
  EXPECT_EQ(orphaned_, 0);
  EXPECT_EQ(OrphanedAfter(), 1000 * (kTimeout - absl::Milliseconds(1)) + absl::Milliseconds(1));
}

TEST_F(TaskOrphanTest, ATakeoverCountsForTheNewHolder) {
  StartTask(kTimeout);
  ASSERT_TRUE(Attach(1).ok());
  const auto old = Watch(1, absl::Minutes(9));
  world_.RunFor(absl::Seconds(11));
  ASSERT_TRUE(Attach(2).ok());
  EXPECT_FALSE(old->ok());
  world_.RunFor(absl::Seconds(5));
  EXPECT_FALSE(Watch(1, absl::Minutes(9))->ok()) << "of the old holder, so it does not count";
  EXPECT_EQ(OrphanedAfter(), absl::Seconds(11) + kTimeout);
}

// What is heard once it is orphaned changes nothing: the daemon is on its way out.
TEST_F(TaskOrphanTest, ItIsSaidOnce) {
  StartTask(kTimeout);
  EXPECT_EQ(OrphanedAfter(), kTimeout);
  ASSERT_TRUE(Attach(1).ok());
  world_.RunFor(kLong);
  EXPECT_EQ(orphaned_, 1);
}

TEST_F(TaskOrphanTest, ATaskThatEndsAnywayIsNotOrphaned) {
  StartTask(kTimeout);
  service_->StartLeaving(absl::ZeroDuration());
  world_.RunFor(kLong);
  StartTask(kTimeout);
  ASSERT_TRUE(Attach(1).ok());
  proto::ShutdownRequest request;
  request.set_epoch(1);
  ASSERT_TRUE(Call<proto::ShutdownResponse>("Shutdown", request)->ok());
  world_.RunFor(kLong);
  service_.reset();
  StartTask(kTimeout);
  service_.reset();
  server_.reset();
  world_.RunFor(kLong);
  EXPECT_EQ(orphaned_, 0);
}

}  // namespace
}  // namespace cohort
