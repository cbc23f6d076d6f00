// Every failed call says what kind of failure it is and which task, in which incarnation, is at
// fault (the structured form that TensorFlow's textual classification lacks): each method of every
// service, refused for every reason that does not depend on what it does.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "common/wire/error_detail.h"
#include "common/wire/typed_call.h"
#include "proto/ps.pb.h"
#include "proto/task.pb.h"
#include "proto/worker.pb.h"
#include "tests/sim/sim_cluster.h"
#include "tests/support/test_programs.h"

namespace cohort {
namespace {

class ErrorOrigin : public testing::Test {
 protected:
  static constexpr char kPs[] = "ps1:2222";
  static constexpr char kWorker[] = "worker1:2222";

  absl::StatusOr<Message> Call(const std::string& address, const std::string& method,
                               Message request) {
    Event event;
    absl::StatusOr<Message> answer;
    const auto channel = world.transport.Connect(address, Lane::kData);
    const auto call = channel->Start(method, std::move(request), absl::Seconds(10),
                                     [&](absl::StatusOr<Message> message) {
                                       answer = std::move(message);
                                       event.Notify();
                                     });
    EXPECT_TRUE(cluster.waiter().Wait(event, absl::Seconds(60)));
    return answer;
  }

  // The task's incarnation.
  uint64_t Attach(const std::string& address, uint64_t epoch) {
    proto::AttachRequest request;
    request.set_epoch(epoch);
    const auto answer =
        Call(address, "/cohort.proto.TaskService/Attach", Message{request.SerializeAsString(), {}});
    EXPECT_TRUE(answer.ok()) << answer.status();
    proto::AttachResponse response;
    EXPECT_TRUE(response.ParseFromString(answer->header));
    return response.task().incarnation();
  }

  // Calls every method of `service` with `header`; each must fail, typed and with this origin.
  void ExpectRefusals(const google::protobuf::FileDescriptor& file, const std::string& service,
                      const std::string& address, const std::string& header) {
    const auto* const descriptor = file.FindServiceByName(service);
    ASSERT_NE(descriptor, nullptr);
    for (int i = 0; i < descriptor->method_count(); ++i) {
      // Asked by those who have no epoch yet.
      if (descriptor->method(i)->name() == "GetStatus") continue;
      const std::string method =
          absl::StrCat("/", descriptor->full_name(), "/", descriptor->method(i)->name());
      ExpectRefusal(address, method, header);
    }
  }

  void ExpectRefusal(const std::string& address, const std::string& method,
                     const std::string& header) {
    SCOPED_TRACE(method);
    const absl::Status status = Call(address, method, Message{header, {}}).status();
    ASSERT_FALSE(status.ok());
    const proto::ErrorDetail detail = DetailOf(status);
    EXPECT_NE(detail.error_class(), proto::ERROR_CLASS_UNKNOWN) << status;
    EXPECT_EQ(detail.origin().role(), address == kPs ? "ps" : "worker") << status;
    EXPECT_EQ(detail.origin().index(), 1) << status;
    EXPECT_EQ(detail.origin().incarnation(), incarnations.at(address)) << status;
  }

  void ExpectAllRefusals(const std::string& header) {
    ExpectRefusals(*proto::PullRequest::descriptor()->file(), "PsService", kPs, header);
    ExpectRefusals(*proto::RunClosureRequest::descriptor()->file(), "WorkerService", kWorker,
                   header);
    for (const char* address : {kPs, kWorker}) {
      ExpectRefusals(*proto::AttachRequest::descriptor()->file(), "TaskService", address, header);
    }
  }

  // Every request has its epoch in field 1.
  static std::string EpochOnly(uint64_t epoch) {
    proto::PsStatsRequest request;
    request.set_epoch(epoch);
    return request.SerializeAsString();
  }

  SimCluster cluster{31, /*ps=*/2, /*workers=*/2};
  World world = cluster.WorldOf("chief:0");
  std::map<std::string, uint64_t> incarnations = {{kPs, Attach(kPs, 5)},
                                                  {kWorker, Attach(kWorker, 5)}};
};

// A field that holds a message, here two bytes that are none.
TEST_F(ErrorOrigin, OfAMalformedPart) {
  ExpectRefusal(kWorker, "/cohort.proto.TaskService/Attach", "\x2a\x02\xff\xff");
  ExpectRefusal(kPs, "/cohort.proto.TaskService/Attach", "\x2a\x02\xff\xff");
  ExpectRefusal(kPs, "/cohort.proto.PsService/CreateVariables", "\x12\x02\xff\xff");
  ExpectRefusal(kWorker, "/cohort.proto.WorkerService/RegisterProgram", "\x1a\x02\xff\xff");
  ExpectRefusal(kWorker, "/cohort.proto.WorkerService/RunClosure", "\x4a\x02\xff\xff");
}

TEST_F(ErrorOrigin, OfAnOldEpoch) { ExpectAllRefusals(EpochOnly(4)); }

TEST_F(ErrorOrigin, OfNoEpoch) { ExpectAllRefusals(""); }

TEST_F(ErrorOrigin, OfAProcessThatNobodyAttached) {
  for (const TaskId task : {TaskId{Role::kPs, 1}, TaskId{Role::kWorker, 1}}) {
    cluster.tasks().Kill(task);
    cluster.tasks().Start(task);
  }
  // Kill and Start in the order ps, worker: each start counts on.
  incarnations = {{kPs, 5}, {kWorker, 6}};
  ExpectRefusals(*proto::PullRequest::descriptor()->file(), "PsService", kPs, EpochOnly(5));
  ExpectRefusals(*proto::RunClosureRequest::descriptor()->file(), "WorkerService", kWorker,
                 EpochOnly(5));
}

// Where no task answers, the caller says whom it cannot reach.
TEST_F(ErrorOrigin, OfATaskThatIsGone) {
  const auto coordinator = cluster.Connect();
  ASSERT_TRUE(coordinator.ok()) << coordinator.status();
  VariableSpec spec;
  spec.name = "counter";
  spec.initializer.set_op("zeros");
  const auto counter = (*coordinator)->Scope(AssignAdd()).CreateVariable(spec);  // on ps:0
  ASSERT_TRUE(counter.ok()) << counter.status();
  cluster.tasks().Kill({Role::kPs, 0});
  for (int i = 0; i < 2; ++i) {
    // First before the loss was noticed, then after.
    const absl::Status status = (*coordinator)->Read(*counter).status();
    EXPECT_EQ(ClassOf(status), proto::PS_LOST) << status;
    EXPECT_EQ(DetailOf(status).origin().role(), "ps");
    EXPECT_EQ(DetailOf(status).origin().index(), 0);
    cluster.sim().RunFor(absl::Seconds(30));
  }
}

// A call that ends without an answer is no attempt, so the closure waits for workers.
TEST_F(ErrorOrigin, OfAClosureThatNoWorkerEnds) {
  ClusterCoordinator::Options options;
  options.attempts_max = 1;
  const auto coordinator = cluster.Connect(std::move(options));
  ASSERT_TRUE(coordinator.ok()) << coordinator.status();
  const auto echo = (*coordinator)->Register(EchoProgram());
  ASSERT_TRUE(echo.ok());
  const Tensor argument = Tensor::FromVector<float>({1}, {1});
  for (const int worker : {0, 1}) cluster.tasks().Kill({Role::kWorker, worker});
  const auto value = (*coordinator)->Schedule(*echo, {{argument}, {}});
  ASSERT_TRUE(value.ok()) << value.status();
  const absl::Status status = (*coordinator)->Join(absl::Seconds(30));
  EXPECT_EQ(status.code(), absl::StatusCode::kDeadlineExceeded) << status;
  for (const int worker : {0, 1}) {
    EXPECT_THAT(std::string(status.message()),
                testing::HasSubstr(absl::StrCat("worker:", worker, " is not there")));
  }
  cluster.tasks().Start({Role::kWorker, 1});
  EXPECT_TRUE((*coordinator)->Join().ok());
  EXPECT_TRUE((*coordinator)->Fetch(*value).ok());
}

}  // namespace
}  // namespace cohort
