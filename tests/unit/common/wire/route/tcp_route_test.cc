// Which way a call takes between hosts: gRPC until the server's port is known to take frames.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "common/wire/frames/local_server.h"
#include "common/wire/grpc/grpc_server.h"
#include "common/wire/route/auto_transport.h"
#include "common/wire/route/shared_port.h"
#include "tests/unit/common/wire/transport_test_world.h"

// ThreadSanitizer does not see the locks of Debian's gRPC.
#ifndef __SANITIZE_THREAD__

namespace cohort {
namespace {

constexpr char kName[] = "0123456789abcdef0123456789abcdef";
constexpr char kOtherName[] = "fedcba9876543210fedcba9876543210";

// A port with a gRPC server and one of frames, told apart by what they answer.
class TcpRouteTest : public testing::Test {
 protected:
  static Service Answering(const std::string& text) {
    Service service;
    service.descriptor = google::protobuf::DescriptorPool::generated_pool()->FindServiceByName(
        "cohort.proto.PsService");
    service.handlers["Pull"] = [text](Message, Reply reply) {
      const auto owner = std::make_shared<const std::string>(text);
      const auto* const data = reinterpret_cast<const std::byte*>(owner->data());
      reply(Message{"", {{owner, data, owner->size()}}});
    };
    return service;
  }

  void StartFrames() {
    auto frames = StartLocalServer(
        loops_, {"", "frames", {Answering("by frames")}, kMessageBytesMax, /*blocks=*/false});
    ASSERT_TRUE(frames.ok()) << frames.status();
    MutexLock lock(mutex_);
    frames_ = *std::move(frames);
  }

  // The server tells `told` and is greeted as `name`.
  void Start(const std::string& told, const std::string& name) {
    auto listeners = ListenTcp("127.0.0.1:0");
    ASSERT_TRUE(listeners.ok()) << listeners.status();
    address_ = absl::StrCat("127.0.0.1:", listeners->port);
    auto grpc = StartGrpcServer(
        {address_, {Answering("by gRPC")}, kMessageBytesMax, "", told, /*listens=*/false});
    ASSERT_TRUE(grpc.ok()) << grpc.status();
    grpc_ = *std::move(grpc);
    StartFrames();
    port_ = SharedPort::Start(loops_.calls, *std::move(listeners),
                              {name,
                               [this](UniqueFd socket, StreamKind kind) {
                                 MutexLock lock(mutex_);
                                 if (frames_ != nullptr) frames_->Take(std::move(socket), kind);
                               },
                               [this](UniqueFd socket, const std::string& bytes) {
                                 grpc_->Take(std::move(socket), bytes);
                               }});
  }

  void EndFrames() {
    std::unique_ptr<LocalServer> ended;
    MutexLock lock(mutex_);
    ended.swap(frames_);
  }

  void TearDown() override {
    if (port_ != nullptr) port_->Close();
    EndFrames();
  }

  // What a call is answered, or the text of its failure.
  static std::string Ask(Channel& channel) {
    Outcome outcome;
    const auto call = channel.Start(kPull, Message{}, kLong, outcome.Completion());
    EXPECT_TRUE(outcome.WaitFor(kLong));
    absl::StatusOr<Message> answer = outcome.Take();
    return answer.ok() ? Flatten(answer->payload) : answer.status().ToString();
  }

  // Asks until the answer is another one than `text`, which all before are.
  static std::string AskWhile(Channel& channel, const std::string& text) {
    for (int i = 0; i < 100'000; ++i) {
      const std::string answer = Ask(channel);
      if (answer != text) return answer;
    }
    return text;
  }

  static constexpr int kManyCalls = 200;

  AutoTransport transport_{{kMessageBytesMax, TransportKind::kTcp}};
  LocalLoops loops_;
  std::string address_;
  std::unique_ptr<GrpcServer> grpc_;
  std::shared_ptr<SharedPort> port_;
  Mutex mutex_;
  std::unique_ptr<LocalServer> frames_ ABSL_GUARDED_BY(mutex_);
};

TEST_F(TcpRouteTest, TheDataLaneGoesOverToFramesAndNoCallWaitsForThat) {
  Start(kName, kName);
  const auto channel = transport_.Connect(address_, Lane::kData);
  EXPECT_EQ(AskWhile(*channel, "by gRPC"), "by frames");
  EXPECT_EQ(Ask(*channel), "by frames");
}

TEST_F(TcpRouteTest, AnAutomaticTransportGoesThereToo) {
  Start(kName, kName);
  AutoTransport transport;
  const auto channel = transport.Connect(address_, Lane::kData);
  EXPECT_EQ(AskWhile(*channel, "by gRPC"), "by frames");
}

TEST_F(TcpRouteTest, TheControlLaneStaysOnGrpc) {
  Start(kName, kName);
  const auto channel = transport_.Connect(address_, Lane::kControl);
  for (int i = 0; i < kManyCalls; ++i) ASSERT_EQ(Ask(*channel), "by gRPC");
}

TEST_F(TcpRouteTest, AServerThatTellsNoNameIsCalledByGrpc) {
  Start("", kName);
  const auto channel = transport_.Connect(address_, Lane::kData);
  for (int i = 0; i < kManyCalls; ++i) ASSERT_EQ(Ask(*channel), "by gRPC");
}

TEST_F(TcpRouteTest, AnotherServerAtTheSameAddressGetsNoCalls) {
  Start(kName, kOtherName);
  const auto channel = transport_.Connect(address_, Lane::kData);
  for (int i = 0; i < kManyCalls; ++i) ASSERT_EQ(Ask(*channel), "by gRPC");
}

// As a proxy is that speaks HTTP/2 alone.
TEST_F(TcpRouteTest, AnAddressWhereOnlyGrpcAnswersIsCalledByGrpc) {
  auto grpc = StartGrpcServer({"127.0.0.1:0", {Answering("by gRPC")}, kMessageBytesMax, "", kName});
  ASSERT_TRUE(grpc.ok()) << grpc.status();
  const auto channel = transport_.Connect((*grpc)->address(), Lane::kData);
  for (int i = 0; i < kManyCalls; ++i) ASSERT_EQ(Ask(*channel), "by gRPC");
}

TEST_F(TcpRouteTest, WhenTheConnectionsEndCallsGoOverGrpcAndComeBack) {
  Start(kName, kName);
  const auto channel = transport_.Connect(address_, Lane::kData);
  EXPECT_EQ(AskWhile(*channel, "by gRPC"), "by frames");
  EndFrames();
  // The end may be noticed only by a call, which then fails as a lost call does.
  std::string answer = Ask(*channel);
  if (answer != "by gRPC") {
    EXPECT_NE(answer.find("UNAVAILABLE"), std::string::npos) << answer;
    answer = Ask(*channel);
  }
  // While nobody serves frames a connection may be made and end at once.
  EXPECT_THAT(answer, testing::AnyOf("by gRPC", testing::HasSubstr("UNAVAILABLE")));
  StartFrames();
  for (int i = 0; i < 100'000 && answer != "by frames"; ++i) answer = Ask(*channel);
  EXPECT_EQ(answer, "by frames");
}

TEST_F(TcpRouteTest, OneServerServesEveryKindOfClient) {
  AutoTransport servers;
  const auto server = servers.Listen("127.0.0.1:0", {Answering("here")});
  ASSERT_TRUE(server.ok()) << server.status();
  for (const TransportKind kind :
       {TransportKind::kAuto, TransportKind::kTcp, TransportKind::kUnix, TransportKind::kShm}) {
    AutoTransport clients({kMessageBytesMax, kind});
    const auto channel = clients.Connect((*server)->address(), Lane::kData);
    for (int i = 0; i < kManyCalls; ++i) ASSERT_EQ(Ask(*channel), "here");
  }
}

}  // namespace
}  // namespace cohort

#endif  // __SANITIZE_THREAD__
