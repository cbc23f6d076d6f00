// Lane::kFrames: nobody asks for room.

// ThreadSanitizer does not see the locks of Debian's gRPC.
#ifndef __SANITIZE_THREAD__

#include <grpcpp/generic/async_generic_service.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <deque>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "common/wire/grpc/grpc_transport.h"
#include "common/wire/route/auto_transport.h"
#include "common/wire/route/joined_transport.h"
#include "proto/ps.pb.h"
#include "tests/unit/common/wire/transport_test_world.h"

namespace cohort {
namespace {

constexpr size_t kMiB = size_t{1} << 20;

// A server whose Push keeps its calls, and that has room for one byte of what is asked for.
class FramesLaneTest : public testing::TestWithParam<TransportKind> {
 protected:
  FramesLaneTest() {
    if (GetParam() == TransportKind::kGrpc) {
      transport_ = std::make_unique<JoinedTransport>(std::make_unique<GrpcTransport>());
    } else {
      transport_ = std::make_unique<JoinedTransport>(
          std::make_unique<AutoTransport>(AutoTransport::Options{kMessageBytesMax, GetParam()}));
    }
    service_.descriptor = proto::PullRequest::descriptor()->file()->FindServiceByName("PsService");
    service_.handlers["Push"] = [this](Message request, Reply reply) {
      MutexLock lock(mutex_);
      kept_.push_back({std::move(request), std::move(reply)});
      changed_.NotifyAll();
    };
    service_.handlers["Pull"] = [this](Message request, Reply reply) {
      if (pull_answers_all_) AnswerAll();
      Echo(std::move(request), std::move(reply));
    };
    service_.receive_budget = std::make_shared<ByteBudget>(1);
    Listen("127.0.0.1:0");
    channel_ = transport_->Connect(server_->address(), Lane::kFrames);
  }
  ~FramesLaneTest() override {
    server_.reset();
    channel_.reset();
  }

  void Listen(const std::string& address) {
    auto server = transport_->Listen(address, {service_});
    ASSERT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
  }

  struct Started {
    std::unique_ptr<Outcome> outcome = std::make_unique<Outcome>();
    std::unique_ptr<Call> call;
  };
  Started Push(uint64_t number, size_t bytes) {
    Started started;
    started.call = channel_->Start(kPush, Message{Header(number), {Bytes(bytes, number)}},
                                   absl::InfiniteDuration(), started.outcome->Completion());
    return started;
  }
  // True when so many calls are in hand.
  bool Arrived(size_t count) {
    MutexLock lock(mutex_);
    while (kept_.size() < count) {
      if (!changed_.WaitFor(mutex_, kLong)) return false;
    }
    return kept_.size() == count;
  }
  void AnswerAll() {
    std::deque<Kept> kept;
    {
      MutexLock lock(mutex_);
      kept.swap(kept_);
    }
    for (auto next = kept.rbegin(); next != kept.rend(); ++next) {
      Message answer = std::move(next->request);
      next->reply(std::move(answer));
    }
  }
  static absl::StatusOr<Message> Await(Started& started) {
    EXPECT_TRUE(started.outcome->WaitFor(kLong));
    return started.outcome->Take();
  }
  absl::StatusOr<Message> Pull() {
    Outcome outcome;
    const auto call = channel_->Start(kPull, Message{Header(1), {}}, absl::InfiniteDuration(),
                                      outcome.Completion());
    EXPECT_TRUE(outcome.WaitFor(kLong));
    return outcome.Take();
  }

  struct Kept {
    Message request;
    Reply reply;
  };
  std::unique_ptr<Transport> transport_;
  Service service_;
  Mutex mutex_;
  CondVar changed_;
  std::deque<Kept> kept_;
  bool pull_answers_all_ = false;  // those that are kept
  std::unique_ptr<Server> server_;
  std::shared_ptr<Channel> channel_;
};

TEST_P(FramesLaneTest, LargeRequestsDoNotWaitForRoom) {
  for (int i = 0; i < 20; ++i) ASSERT_TRUE(Pull().ok());  // until there is another way than gRPC
  std::vector<Started> calls;
  for (uint64_t i = 0; i < 8; ++i) calls.push_back(Push(i, kMiB));
  calls.push_back(Push(8, kFrameBytesMax));
  ASSERT_TRUE(Arrived(calls.size()));
  EXPECT_EQ(service_.receive_budget->stats().waits, 0u);
  AnswerAll();
  for (uint64_t i = 0; i < calls.size(); ++i) {
    const absl::StatusOr<Message> answer = Await(calls[i]);
    ASSERT_TRUE(answer.ok()) << answer.status();
    EXPECT_EQ(answer->header, Header(i));
    EXPECT_EQ(Flatten(answer->payload), Flatten({Bytes(i < 8 ? kMiB : kFrameBytesMax, i)})) << i;
  }
}

TEST_P(FramesLaneTest, ManyAnswersAtOnceFindTheirCalls) {
  std::vector<Started> calls;
  for (uint64_t i = 0; i < 300; ++i) calls.push_back(Push(i, i % 3 == 0 ? 0 : i * 100));
  ASSERT_TRUE(Arrived(calls.size()));
  AnswerAll();
  for (uint64_t i = 0; i < calls.size(); ++i) {
    const absl::StatusOr<Message> answer = Await(calls[i]);
    ASSERT_TRUE(answer.ok()) << answer.status();
    EXPECT_EQ(answer->header, Header(i));
    EXPECT_EQ(PayloadBytes(answer->payload), i % 3 == 0 ? 0 : i * 100);
  }
}

TEST_P(FramesLaneTest, AHandlerAnswersThoseBeforeItToo) {
  pull_answers_all_ = true;
  std::vector<Started> calls;
  for (uint64_t i = 0; i < 9; ++i) calls.push_back(Push(i, i == 3 ? 1000 : 0));
  ASSERT_TRUE(Arrived(calls.size()));
  EXPECT_TRUE(Pull().ok());
  for (uint64_t i = 0; i < calls.size(); ++i) {
    const absl::StatusOr<Message> answer = Await(calls[i]);
    ASSERT_TRUE(answer.ok()) << answer.status();
    EXPECT_EQ(answer->header, Header(i));
  }
}

TEST_P(FramesLaneTest, AServerThatComesBackIsReachedAgain) {
  ASSERT_TRUE(Pull().ok());
  const std::string address = server_->address();
  Started open = Push(1, 100);
  ASSERT_TRUE(Arrived(1));
  server_.reset();
  EXPECT_EQ(Await(open).status().code(), absl::StatusCode::kUnavailable);
  ASSERT_NO_FATAL_FAILURE(Listen(address));
  absl::StatusOr<Message> answer = Pull();
  for (int i = 0; i < 100'000 && !answer.ok(); ++i) answer = Pull();
  EXPECT_TRUE(answer.ok()) << answer.status();
}

INSTANTIATE_TEST_SUITE_P(All, FramesLaneTest,
                         testing::Values(TransportKind::kGrpc, TransportKind::kTcp),
                         [](const auto& info) { return TransportKindName(info.param); });

// A lane of frames over a stream of gRPC, which takes bytes and does not give them back.
class GrpcFramesLaneTest : public FramesLaneTest {};

TEST_P(GrpcFramesLaneTest, ACancelledCallWhoseBytesHaveGoneLeavesTheOthersAlone) {
  Started first = Push(1, kMiB);
  Started second = Push(2, kMiB);
  ASSERT_TRUE(Arrived(2));
  // The request of this call was written after the others.
  EXPECT_TRUE(Pull().ok());
  first.call->Cancel();
  EXPECT_EQ(Await(first).status().code(), absl::StatusCode::kCancelled);
  EXPECT_FALSE(second.outcome->done());
  AnswerAll();
  EXPECT_TRUE(Await(second).ok());
  EXPECT_TRUE(Pull().ok());
  EXPECT_EQ(first.outcome->completions(), 1);
}

TEST_P(GrpcFramesLaneTest, CallsGoOnWhenTheirChannelIsGone) {
  Started open = Push(1, kMiB);
  ASSERT_TRUE(Arrived(1));
  channel_.reset();
  AnswerAll();
  EXPECT_TRUE(Await(open).ok());
}

TEST_P(GrpcFramesLaneTest, AnAnswerMayHaveALargeHeader) {
  service_.handlers["Push"] = [](Message, Reply reply) {
    reply(Message{std::string(2 * kMiB, 'x'), {}});
  };
  const std::string address = server_->address();
  server_.reset();
  ASSERT_NO_FATAL_FAILURE(Listen(address));
  channel_ = transport_->Connect(address, Lane::kFrames);
  Started call = Push(1, 100);
  const absl::StatusOr<Message> answer = Await(call);
  ASSERT_TRUE(answer.ok()) << answer.status();
  EXPECT_EQ(answer->header.size(), 2 * kMiB);
}

// Takes every call, and reads nothing of it. Thread-safe.
class Silent final : public grpc::CallbackGenericService {
 public:
  grpc::ServerGenericBidiReactor* CreateReactor(grpc::GenericCallbackServerContext*) override {
    class Reactor final : public grpc::ServerGenericBidiReactor {
      void OnCancel() override { Finish(grpc::Status::CANCELLED); }
      void OnDone() override { delete this; }
    };
    return new Reactor();
  }
};

// What gRPC could not send is given up with the call, not with the channel.
TEST_P(GrpcFramesLaneTest, ACancelledCallReleasesMemoryThatThePeerDoesNotRead) {
  Silent silent;
  int port = 0;
  const std::unique_ptr<grpc::Server> server =
      grpc::ServerBuilder()
          .AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port)
          .RegisterCallbackGenericService(&silent)
          .BuildAndStart();
  ASSERT_NE(server, nullptr);
  channel_ = transport_->Connect(absl::StrCat("127.0.0.1:", port), Lane::kFrames);
  std::vector<Started> calls;
  std::vector<std::weak_ptr<const void>> memory;
  for (uint64_t i = 0; i < 8; ++i) {
    ByteSlice bytes = Bytes(kFrameBytesMax, i);
    memory.push_back(bytes.owner);
    Started started;
    started.call = channel_->Start(kPush, Message{Header(i), {std::move(bytes)}},
                                   absl::InfiniteDuration(), started.outcome->Completion());
    calls.push_back(std::move(started));
  }
  for (Started& started : calls) started.call->Cancel();
  // By their own cancel or another's.
  for (Started& started : calls) EXPECT_FALSE(Await(started).ok());
  const absl::Time end = absl::Now() + kLong;
  for (const std::weak_ptr<const void>& next : memory) {
    while (!next.expired() && absl::Now() < end) std::this_thread::yield();
    EXPECT_TRUE(next.expired());
  }
}

INSTANTIATE_TEST_SUITE_P(Grpc, GrpcFramesLaneTest, testing::Values(TransportKind::kGrpc),
                         [](const auto& info) { return TransportKindName(info.param); });

}  // namespace
}  // namespace cohort

#endif  // __SANITIZE_THREAD__
