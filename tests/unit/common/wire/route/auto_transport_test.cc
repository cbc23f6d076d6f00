// Which way a call takes: gRPC until the server's name on this host is known and answers.

#include "common/wire/route/auto_transport.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "common/wire/grpc/grpc_server.h"
#include "tests/support/network/local_transport.h"
#include "tests/unit/common/wire/transport_test_world.h"

// ThreadSanitizer does not see the locks of Debian's gRPC.
#ifndef __SANITIZE_THREAD__

namespace cohort {
namespace {

// A gRPC server and a local one, told apart by what they answer.
class AutoTransportTest : public testing::Test {
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

  void StartGrpc(const std::string& local_name) {
    auto server =
        StartGrpcServer({"127.0.0.1:0", {Answering("by gRPC")}, kMessageBytesMax, local_name});
    ASSERT_TRUE(server.ok()) << server.status();
    grpc_ = *std::move(server);
  }

  void StartLocal(const std::string& name = "cohort-test:0") {
    auto server = local_transport_.Listen(name, {Answering("on this host")});
    ASSERT_TRUE(server.ok()) << server.status();
    local_ = *std::move(server);
  }

  // What a call is answered, or the text of its failure.
  static std::string Ask(Channel& channel) {
    Outcome outcome;
    const auto call = channel.Start(kPull, Message{}, kLong, outcome.Completion());
    EXPECT_TRUE(outcome.WaitFor(kLong));
    absl::StatusOr<Message> answer = outcome.Take();
    return answer.ok() ? Flatten(answer->payload) : answer.status().ToString();
  }

  // What `kind` says of the server: its answer, or why it is refused.
  std::string AskAs(TransportKind kind) {
    AutoTransport transport({kMessageBytesMax, kind});
    return Ask(*transport.Connect(grpc_->address(), Lane::kData));
  }

  LocalTransport local_transport_;
  AutoTransport transport_;
  std::unique_ptr<Server> grpc_;
  std::unique_ptr<Server> local_;
};

TEST_F(AutoTransportTest, TheDataLaneGoesOverToTheLocalSocketAfterItsFirstAnswer) {
  StartLocal();
  StartGrpc(local_->address());
  const auto channel = transport_.Connect(grpc_->address(), Lane::kData);
  EXPECT_EQ(Ask(*channel), "by gRPC");
  EXPECT_EQ(Ask(*channel), "on this host");
  EXPECT_EQ(Ask(*channel), "on this host");
}

TEST_F(AutoTransportTest, TheControlLaneStaysOnGrpc) {
  StartLocal();
  StartGrpc(local_->address());
  const auto channel = transport_.Connect(grpc_->address(), Lane::kControl);
  EXPECT_EQ(Ask(*channel), "by gRPC");
  EXPECT_EQ(Ask(*channel), "by gRPC");
}

TEST_F(AutoTransportTest, ANameThatIsOfAnotherHostChangesNothing) {
  StartGrpc("cohort-test:nobody-listens-here");
  const auto channel = transport_.Connect(grpc_->address(), Lane::kData);
  EXPECT_EQ(Ask(*channel), "by gRPC");
  EXPECT_EQ(Ask(*channel), "by gRPC");
}

TEST_F(AutoTransportTest, AServerWithoutLocalSocketIsReachedByGrpc) {
  StartGrpc("");
  const auto channel = transport_.Connect(grpc_->address(), Lane::kData);
  EXPECT_EQ(Ask(*channel), "by gRPC");
  EXPECT_EQ(Ask(*channel), "by gRPC");
}

TEST_F(AutoTransportTest, ANamedTransportIsTheOnlyWayFromTheFirstCall) {
  StartLocal("cohort-shm:0");
  StartGrpc(local_->address());
  EXPECT_EQ(AskAs(TransportKind::kShm), "on this host");
  EXPECT_EQ(AskAs(TransportKind::kUnix), "on this host");
}

TEST_F(AutoTransportTest, SharedMemoryIsRefusedWhereTheServerHasNone) {
  StartLocal("cohort-unix:0");
  StartGrpc(local_->address());
  EXPECT_EQ(AskAs(TransportKind::kUnix), "on this host");
  EXPECT_EQ(AskAs(TransportKind::kShm),
            absl::StrCat("FAILED_PRECONDITION: --transport shm cannot reach ", grpc_->address(),
                         ": it shares no memory (--transport unix); use --transport auto or tcp"));
}

TEST_F(AutoTransportTest, NamedTransportsRefusePeersOfOtherHosts) {
  StartGrpc("cohort-shm:nobody-listens-here");
  EXPECT_EQ(AskAs(TransportKind::kShm),
            absl::StrCat("FAILED_PRECONDITION: --transport shm cannot reach ", grpc_->address(),
                         ": nobody on this host, in this network namespace and of this user has "
                         "its name; use --transport auto or tcp"));
  EXPECT_THAT(AskAs(TransportKind::kUnix), testing::StartsWith("FAILED_PRECONDITION"));
}

TEST_F(AutoTransportTest, NamedTransportsRefuseAServerOfTcpAlone) {
  StartGrpc("");
  EXPECT_EQ(AskAs(TransportKind::kUnix),
            absl::StrCat("FAILED_PRECONDITION: --transport unix cannot reach ", grpc_->address(),
                         ": it has no socket on its host (--transport tcp or grpc); use "
                         "--transport auto or tcp"));
  EXPECT_THAT(AskAs(TransportKind::kShm), testing::StartsWith("FAILED_PRECONDITION"));
}

TEST_F(AutoTransportTest, ANamedTransportConnectsAgainAfterTheConnectionEnded) {
  StartLocal("cohort-shm:0");
  StartGrpc(local_->address());
  AutoTransport transport({kMessageBytesMax, TransportKind::kShm});
  const auto channel = transport.Connect(grpc_->address(), Lane::kData);
  EXPECT_EQ(Ask(*channel), "on this host");
  const std::string name = local_->address();
  local_.reset();
  StartLocal(name);
  std::string answer = Ask(*channel);
  // The end of the connection may be noticed only by a call, which then fails as a lost call does.
  if (answer != "on this host") {
    EXPECT_NE(answer.find("UNAVAILABLE"), std::string::npos) << answer;
    answer = Ask(*channel);
  }
  EXPECT_EQ(answer, "on this host");
}

TEST_F(AutoTransportTest, WhenTheLocalConnectionEndsCallsGoOverGrpcAgain) {
  StartLocal();
  StartGrpc(local_->address());
  const auto channel = transport_.Connect(grpc_->address(), Lane::kData);
  EXPECT_EQ(Ask(*channel), "by gRPC");
  EXPECT_EQ(Ask(*channel), "on this host");
  local_.reset();
  // The end of the connection may be noticed only by a call, which then fails as a lost call does.
  std::string answer = Ask(*channel);
  if (answer != "by gRPC") {
    EXPECT_NE(answer.find("UNAVAILABLE"), std::string::npos) << answer;
    answer = Ask(*channel);
  }
  EXPECT_EQ(answer, "by gRPC");
}

}  // namespace
}  // namespace cohort

#endif  // __SANITIZE_THREAD__
