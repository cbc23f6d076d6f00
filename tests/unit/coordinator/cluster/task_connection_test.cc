// What a connection tells of its task, in which order, when answers and timers come to several
// threads at once. The transport and the clock are played.

#include "coordinator/cluster/task_connection.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "common/base/thread_pool.h"
#include "common/cluster/address.h"
#include "common/wire/typed_call.h"
#include "proto/task.pb.h"
#include "tests/support/world/memory_file_system.h"

namespace cohort {
namespace {

using testing::ElementsAre;

struct OpenCall {
  std::string method;
  Reply done;
};

// Calls wait until the test answers them.
class HeldTransport final : public Transport {
 public:
  absl::StatusOr<std::unique_ptr<Server>> Listen(const std::string&,
                                                 std::vector<Service>) override {
    return absl::UnimplementedError("nobody listens");
  }
  std::shared_ptr<Channel> Connect(const std::string&, Lane) override {
    return std::make_shared<HeldChannel>(*this);
  }
  OpenCall Take() {
    MutexLock lock(mutex_);
    OpenCall call = std::move(open_.front());
    open_.erase(open_.begin());
    return call;
  }
  size_t num_open() {
    MutexLock lock(mutex_);
    return open_.size();
  }

 private:
  class HeldChannel final : public Channel {
   public:
    explicit HeldChannel(HeldTransport& transport) : transport_(transport) {}
    std::unique_ptr<Call> Start(absl::string_view method, Message, absl::Duration,
                                Reply done) override {
      MutexLock lock(transport_.mutex_);
      transport_.open_.push_back({std::string(method), std::move(done)});
      return nullptr;
    }

   private:
    HeldTransport& transport_;
  };

  Mutex mutex_;
  std::vector<OpenCall> open_ ABSL_GUARDED_BY(mutex_);
};

class HeldClock final : public Clock {
 public:
  absl::Time Now() const override { return now_; }
  TimerId CallAt(absl::Time, Task task) override {
    timers_.push_back(std::move(task));
    return TimerId{++last_};
  }
  bool Cancel(TimerId) override { return false; }
  // All timers go off.
  void Pass(absl::Duration time) {
    now_ += time;
    for (Task& timer : std::exchange(timers_, {})) timer();
  }

 private:
  absl::Time now_ = absl::FromUnixSeconds(1000);
  uint64_t last_ = 0;
  std::vector<Task> timers_;
};

class TaskConnectionTest : public testing::Test {
 protected:
  TaskConnectionTest() {
    TaskConnection::Options options;
    options.task = {Role::kWorker, 0};
    options.address = [this] { return address_; };
    options.on_ready = [this](const TaskLink&) { seen_.push_back("ready"); };
    options.on_lost = [this](const absl::Status&) {
      if (while_lost_) while_lost_();
      seen_.push_back("lost");
    };
    connection_ = TaskConnection::Create(World{clock_, pool_, files_, transport_}, options);
    connection_->Renew({});
    Answer(transport_.Take());
  }
  ~TaskConnectionTest() override { connection_->Stop(); }

  static void Answer(OpenCall call, uint64_t incarnation = 5) {
    ASSERT_EQ(call.method, "/cohort.proto.TaskService/Attach");
    proto::AttachResponse response;
    response.mutable_task()->set_role("worker");
    response.mutable_task()->set_incarnation(incarnation);
    call.done(Message{response.SerializeAsString(), {}});
  }
  // Its Watch breaks: it is asked whether it is still there.
  OpenCall Suspect() {
    transport_.Take().done(absl::UnavailableError("reset"));
    return transport_.Take();
  }

  HeldTransport transport_;
  HeldClock clock_;
  ThreadPool pool_{{"pool", 1}};
  MemoryFileSystem files_;
  std::string address_ = "a:1";
  std::vector<std::string> seen_;
  std::function<void()> while_lost_;
  std::shared_ptr<TaskConnection> connection_;
};

// It answers late, on another thread, while the one that found it lost is telling so.
TEST_F(TaskConnectionTest, AnAnswerThatComesLateDoesNotOvertakeTheLoss) {
  OpenCall probe = Suspect();
  while_lost_ = [&] { std::thread([&] { Answer(std::move(probe)); }).join(); };
  clock_.Pass(absl::Seconds(6));
  EXPECT_THAT(seen_, ElementsAre("ready", "lost", "ready"));
  EXPECT_TRUE(connection_->IsServing());
}

TEST_F(TaskConnectionTest, WhatWasToBeToldOfAnAttachmentIsNotToldBehindItsEnd) {
  OpenCall probe = Suspect();
  while_lost_ = [&] {
    std::thread([&] { Answer(std::move(probe)); }).join();
    connection_->Suspend();
  };
  clock_.Pass(absl::Seconds(6));
  EXPECT_THAT(seen_, ElementsAre("ready", "lost"));
  while_lost_ = nullptr;
  connection_->Renew({});
  Answer(transport_.Take());
  EXPECT_THAT(seen_, ElementsAre("ready", "lost", "ready"));
}

TEST_F(TaskConnectionTest, AnotherProcessIsALossAndAReturn) {
  Answer(Suspect(), /*incarnation=*/6);
  EXPECT_THAT(seen_, ElementsAre("ready", "lost", "ready"));
}

// Nobody has given the address of a local task whose process does not listen yet.
TEST_F(TaskConnectionTest, AProcessThatDoesNotListenYetIsNotCalled) {
  transport_.Take();  // the Watch of the process before
  connection_->Suspend();
  address_ = kNowhere;
  connection_->Renew({});
  EXPECT_EQ(transport_.num_open(), 0u);
  const std::string starts = "worker:0 does not answer: its process does not listen yet";
  EXPECT_EQ(connection_->Describe(), starts);
  address_ = "b:2";
  EXPECT_EQ(connection_->Describe(), starts) << "until the next attempt";
  clock_.Pass(absl::Seconds(6));
  ASSERT_EQ(transport_.num_open(), 1u);
  Answer(transport_.Take());
  EXPECT_EQ(connection_->Describe(), "worker:0 serves at b:2");
}

TEST_F(TaskConnectionTest, NothingIsToldBehindStop) {
  OpenCall probe = Suspect();
  while_lost_ = [&] {
    std::thread([&] { Answer(std::move(probe)); }).join();
    connection_->Stop();
  };
  clock_.Pass(absl::Seconds(6));
  EXPECT_THAT(seen_, ElementsAre("ready", "lost"));
}

}  // namespace
}  // namespace cohort
