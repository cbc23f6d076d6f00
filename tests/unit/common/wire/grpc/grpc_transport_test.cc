// What gRPC adds to the conformance suite: the standard services, and clients that are not ours.

// ThreadSanitizer does not see the locks of Debian's gRPC.
#ifndef __SANITIZE_THREAD__

#include "common/wire/grpc/grpc_transport.h"

#include <grpcpp/generic/async_generic_service.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/event.h"
#include "common/wire/error_detail.h"
#include "common/wire/frames/frame_prefix.h"
#include "proto/ps.pb.h"
#include "proto/wire.pb.h"
#include "tests/unit/common/wire/transport_test_world.h"

namespace cohort {
namespace {

constexpr absl::Duration kLong = absl::Seconds(60);

class GrpcTransportTest : public testing::Test {
 protected:
  GrpcTransportTest() {
    Service service;
    service.descriptor = proto::PullRequest::descriptor()->file()->FindServiceByName("PsService");
    service.handlers["Pull"] = [this](Message request, Reply reply) {
      ++handled_;
      reply(std::move(request));
    };
    service.handlers["Push"] = [](Message, Reply reply) {
      reply(MakeError(absl::StatusCode::kAborted, "no", proto::STALE));
    };
    auto server = transport_.Listen("127.0.0.1:0", {service});
    EXPECT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
  }

  absl::StatusOr<Message> Call(const char* method, Message request) {
    Outcome outcome;
    auto call = transport_.Connect(server_->address(), Lane::kControl)
                    ->Start(method, std::move(request), kLong, outcome.Completion());
    EXPECT_TRUE(outcome.WaitFor(kLong));
    return outcome.Take();
  }

  // One message there and one back on a call of any kind, with gRPC's own client.
  grpc::Status Exchange(const char* method, const std::string& request, std::string& response) {
    const grpc::Slice slice(request);
    const grpc::ByteBuffer out(&slice, 1);
    grpc::ByteBuffer in;
    grpc::GenericStub stub(
        grpc::CreateChannel(server_->address(), grpc::InsecureChannelCredentials()));
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(60));
    grpc::CompletionQueue queue;
    auto stream = stub.PrepareCall(&context, method, &queue);
    void* tag = nullptr;
    bool ok = false;
    stream->StartCall(nullptr);
    queue.Next(&tag, &ok);
    stream->WriteLast(out, grpc::WriteOptions(), nullptr);
    queue.Next(&tag, &ok);
    stream->Read(&in, nullptr);
    queue.Next(&tag, &ok);
    grpc::Status status;
    stream->Finish(&status, nullptr);
    queue.Next(&tag, &ok);
    std::vector<grpc::Slice> slices;
    if (in.Valid() && in.Dump(&slices).ok()) {
      for (const grpc::Slice& part : slices) {
        response.append(reinterpret_cast<const char*>(part.begin()), part.size());
      }
    }
    return status;
  }

  // A frame with a part of a message's payload, as a message of a stream of frames; the first part
  // has a method.
  static std::string Part(const std::string& method, uint64_t whole_bytes,
                          const std::string& payload) {
    proto::LocalFrame frame;
    if (!method.empty()) frame.mutable_call()->set_method(method);
    frame.set_whole_bytes(whole_bytes);
    frame.set_payload(payload);
    proto::FrameBytes bytes;
    bytes.set_payload(WithPrefix(frame, FrameSums::kCrc32c));
    return bytes.SerializeAsString();
  }

  // Sends the messages on one stream and ends it. Returns the status that the server answers.
  grpc::Status SendMessages(const std::vector<std::string>& messages) {
    grpc::GenericStub stub(
        grpc::CreateChannel(server_->address(), grpc::InsecureChannelCredentials()));
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(60));
    grpc::CompletionQueue queue;
    auto stream = stub.PrepareCall(&context, "/cohort.proto.WireService/Frames", &queue);
    void* tag = nullptr;
    bool ok = false;
    stream->StartCall(nullptr);
    queue.Next(&tag, &ok);
    for (const std::string& message : messages) {
      const grpc::Slice slice(message);
      stream->Write(grpc::ByteBuffer(&slice, 1), nullptr);
      queue.Next(&tag, &ok);
    }
    stream->WritesDone(nullptr);
    queue.Next(&tag, &ok);
    grpc::ByteBuffer answer;
    do {
      stream->Read(&answer, nullptr);
      queue.Next(&tag, &ok);
    } while (ok);
    grpc::Status status;
    stream->Finish(&status, nullptr);
    queue.Next(&tag, &ok);
    return status;
  }

  std::atomic<int> handled_{0};
  GrpcTransport transport_;
  std::unique_ptr<Server> server_;
};

TEST_F(GrpcTransportTest, AddressHasTheBoundPort) {
  EXPECT_EQ(server_->address().rfind("127.0.0.1:", 0), 0u);
  EXPECT_NE(server_->address(), "127.0.0.1:0");
}

TEST_F(GrpcTransportTest, AnAddressWithoutPortIsAnErrorThatNamesIt) {
  const auto server = transport_.Listen("localhost", {});
  EXPECT_EQ(server.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_NE(server.status().message().find("localhost"), absl::string_view::npos);
}

TEST_F(GrpcTransportTest, AnAddressOfAnotherMachineIsAnErrorThatNamesIt) {
  const auto server = transport_.Listen("192.0.2.1:0", {});  // reserved for documentation
  EXPECT_EQ(server.status().code(), absl::StatusCode::kUnavailable);
  EXPECT_NE(server.status().message().find("192.0.2.1:0"), absl::string_view::npos);
}

TEST_F(GrpcTransportTest, AMessageOfWhichTheStreamEndsAfterAnyOfItsPartsWasNeverSent) {
  const std::vector<std::string> parts = {Part(kPull, 9, "abc"), Part("", 0, "def"),
                                          Part("", 0, "ghi")};
  for (size_t sent = 0; sent < parts.size(); ++sent) {
    const grpc::Status status =
        SendMessages({parts.begin(), parts.begin() + static_cast<ptrdiff_t>(sent)});
    EXPECT_EQ(status.error_code(), grpc::StatusCode::UNAVAILABLE);
    EXPECT_EQ(handled_, 0);
  }
  SendMessages(parts);
  EXPECT_EQ(handled_, 1);
}

TEST_F(GrpcTransportTest, AStreamOfOtherBytesThanFramesEndsWithTheReason) {
  const auto code = [&](const std::vector<std::string>& messages) {
    return SendMessages(messages).error_code();
  };
  proto::FrameBytes no_frame;
  no_frame.set_payload("this is no frame");
  EXPECT_EQ(code({"\xff\xff"}), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_EQ(code({no_frame.SerializeAsString()}), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_EQ(code({Part(kPull, 2, "abc")}), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_EQ(code({Part(kPull, 5, "abc"), Part("", 0, "def")}), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_EQ(code({Part(kPull, 5, "abc"), Part(kPull, 5, "abc")}),
            grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_EQ(code({Part(kPull, kMessageBytesMax + 1, "abc")}), grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_EQ(handled_, 0);
  const grpc::Status status = SendMessages({no_frame.SerializeAsString()});
  EXPECT_NE(status.error_message().find("CRC-32C"), std::string::npos) << status.error_message();
  EXPECT_TRUE(Call(kPull, Message{}).ok());
}

TEST_F(GrpcTransportTest, HealthServiceSaysServing) {
  const auto health = Call("/grpc.health.v1.Health/Check", Message{});
  ASSERT_TRUE(health.ok()) << health.status();
  EXPECT_EQ(health->header, "\x08\x01");  // HealthCheckResponse{status: SERVING}
  server_->Drain(absl::ZeroDuration());
  const auto draining = Call("/grpc.health.v1.Health/Check", Message{});
  ASSERT_TRUE(draining.ok()) << draining.status();
  EXPECT_EQ(draining->header, "\x08\x02");  // NOT_SERVING
}

TEST_F(GrpcTransportTest, ReflectionListsOurServices) {
  std::string response;
  // ServerReflectionRequest{list_services: ""}
  const grpc::Status status =
      Exchange("/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo",
               std::string("\x3a\x00", 2), response);
  ASSERT_TRUE(status.ok()) << status.error_message();
  EXPECT_NE(response.find("cohort.proto.PsService"), std::string::npos);
  EXPECT_NE(response.find("grpc.health.v1.Health"), std::string::npos);
}

TEST_F(GrpcTransportTest, HealthOfAServiceByNameIsNotKnown) {
  std::string response;
  // HealthCheckRequest{service: "ps"}
  const grpc::Status status = Exchange("/grpc.health.v1.Health/Check", "\x0a\x02ps", response);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::NOT_FOUND);
  EXPECT_NE(status.error_message().find("'ps'"), std::string::npos) << status.error_message();
}

TEST_F(GrpcTransportTest, ReflectionGivesTheFileOfASymbolWithItsImports) {
  std::string response;
  const std::string symbol = "cohort.proto.PsService";
  // ServerReflectionRequest{file_containing_symbol: symbol}
  const grpc::Status status = Exchange(
      "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo",
      absl::StrCat("\x22", std::string(1, static_cast<char>(symbol.size())), symbol), response);
  ASSERT_TRUE(status.ok()) << status.error_message();
  EXPECT_NE(response.find("proto/ps.proto"), std::string::npos);
  EXPECT_NE(response.find("TensorMeta"), std::string::npos);  // of proto/tensor.proto
}

TEST_F(GrpcTransportTest, ReflectionSaysWhatItDoesNotKnow) {
  std::string response;
  const grpc::Status status =
      Exchange("/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo",
               std::string("\x22\x04none"), response);
  ASSERT_TRUE(status.ok()) << status.error_message();
  EXPECT_NE(response.find("does not know none"), std::string::npos) << response;
}

TEST_F(GrpcTransportTest, AnyGrpcClientCanCall) {
  proto::PullResponse sent;
  sent.add_versions(3);
  sent.set_payload(std::string(100000, 'x'));
  std::string response;
  const grpc::Status status =
      Exchange("/cohort.proto.PsService/Pull", sent.SerializeAsString(), response);
  ASSERT_TRUE(status.ok()) << status.error_message();
  proto::PullResponse received;
  ASSERT_TRUE(received.ParseFromString(response));
  EXPECT_EQ(received.payload(), sent.payload());
  EXPECT_EQ(received.versions(0), 3u);
}

TEST_F(GrpcTransportTest, ErrorDetailIsInTheStatusOfAnyClient) {
  std::string response;
  const grpc::Status status = Exchange("/cohort.proto.PsService/Push", "", response);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::ABORTED);
  proto::ErrorDetail detail;
  ASSERT_TRUE(detail.ParseFromString(status.error_details()));
  EXPECT_EQ(detail.error_class(), proto::STALE);
}

TEST_F(GrpcTransportTest, BytesThatAreNoMessageAreRefused) {
  std::string response;
  const grpc::Status status =
      Exchange("/cohort.proto.PsService/Pull", std::string(11, '\xff'), response);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_TRUE(Call("/cohort.proto.PsService/Pull", Message{}).ok());
}

// In a process of its own, where this server is the first.
void ServeBesideAnother() {
  grpc::AsyncGenericService service;
  grpc::ServerBuilder builder;
  int port = 0;
  builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port);
  builder.RegisterAsyncGenericService(&service);
  const auto queue = builder.AddCompletionQueue();
  const std::unique_ptr<grpc::Server> other = builder.BuildAndStart();
  GrpcTransport transport;
  const auto ours = transport.Listen("127.0.0.1:0", {});
  Outcome outcome;
  const auto call = transport.Connect((*ours)->address(), Lane::kControl)
                        ->Start("/none/None", Message{}, kLong, outcome.Completion());
  const bool answered =
      outcome.WaitFor(kLong) && outcome.Take().status().code() == absl::StatusCode::kUnimplemented;
  _exit(answered && other != nullptr ? 0 : 1);
}

TEST(GrpcServerDeathTest, AServerThatIsNotOursMayBeBuiltBefore) {
  testing::FLAGS_gtest_death_test_style = "threadsafe";
  EXPECT_EXIT(ServeBesideAnother(), testing::ExitedWithCode(0), "");
}

// The last channel of a process may be released by the completion of its own call.
TEST(GrpcChannel, TheLastOneMayEndInsideItsOwnCompletion) {
  for (int i = 0; i < 50; ++i) {
    Event done;
    {
      GrpcTransport transport;
      std::shared_ptr<Channel> channel = transport.Connect("127.0.0.1:1", Lane::kControl);
      Channel& kept_by_its_call = *channel;
      kept_by_its_call.Start(
          "/cohort.proto.TaskService/Watch", Message{}, absl::Seconds(10),
          [&done, channel = std::move(channel)](absl::StatusOr<Message>) mutable {
            channel.reset();
            done.Notify();
          });
    }
    ASSERT_TRUE(done.WaitFor(absl::Seconds(30)));
  }
}

}  // namespace
}  // namespace cohort

#endif  // __SANITIZE_THREAD__
