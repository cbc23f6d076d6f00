// The conformance suite of transport.h: what a call carries.

#include "common/wire/transport.h"

#include <gtest/gtest.h>

#include <atomic>
#include <vector>

#include "common/wire/error_detail.h"
#include "tests/unit/common/wire/transport_test_world.h"

namespace cohort {
namespace {

TEST_P(TransportTest, EchoesHeaderAndPayload) {
  auto server = Listen({{"Pull", Echo}});
  auto channel = world().transport().Connect(server->address(), Lane::kData);
  const ByteSlice payload = Bytes(1000, 1);
  const auto result = CallOnce(*channel, kPull, Message{Header(7), {payload}});
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(result->header, Header(7));
  EXPECT_EQ(Flatten(result->payload), Flatten({payload}));
}

TEST_P(TransportTest, EchoesAnEmptyMessage) {
  auto server = Listen({{"Pull", Echo}});
  auto channel = world().transport().Connect(server->address(), Lane::kControl);
  const auto result = CallOnce(*channel, kPull, Message{});
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(result->header, "");
  EXPECT_EQ(PayloadBytes(result->payload), 0u);
}

TEST_P(TransportTest, EchoesABigPayloadOfManySlices) {
  auto server = Listen({{"Pull", Echo}});
  auto channel = world().transport().Connect(server->address(), Lane::kData);
  Payload payload;
  for (uint64_t i = 0; i < 1024; ++i) payload.push_back(Bytes(65536 - 512 + i, i));  // 64 MiB
  payload.push_back({});
  for (uint64_t i = 0; i < 100; ++i) payload.push_back(Bytes(i, i));
  const auto result = CallOnce(*channel, kPull, Message{Header(7), payload});
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_TRUE(Flatten(result->payload) == Flatten(payload));
}

TEST_P(TransportTest, ALargeAnswerArrivesWhateverTheCallerExpected) {
  const ByteSlice large = Bytes((size_t{10} << 20) + 3, 1);
  auto server = Listen({{"Pull",
                         [&](Message, Reply reply) {
                           reply(Message{Header(2), {large}});
                         }},
                        {"Push", Echo}});
  auto channel = world().transport().Connect(server->address(), Lane::kData);
  for (const size_t expected : {size_t{0}, large.size, size_t{100} << 20}) {
    const auto answer = CallOnce(*channel, kPull, Message{Header(1), {}, expected});
    ASSERT_TRUE(answer.ok()) << answer.status();
    EXPECT_EQ(answer->header, Header(2));
    EXPECT_TRUE(Flatten(answer->payload) == Flatten({large}));
    const auto small = CallOnce(*channel, kPush, Message{Header(3), {}, expected});
    ASSERT_TRUE(small.ok()) << small.status();
    EXPECT_EQ(small->header, Header(3));
    EXPECT_EQ(PayloadBytes(small->payload), 0u);
  }
}

// Returns whether a transport sees bytes move: it does unless messages arrive at once, or only in
// simulated time.
bool SeesBytesMove(absl::string_view world) { return world != "InProcess" && world != "Simulated"; }

TEST_P(TransportTest, ARequestOnItsWayIsProgressThatTheChannelTells) {
  std::atomic<bool> handled{false};
  Reply kept;
  auto server = Listen({{"Push", [&](Message, Reply reply) {
                           kept = std::move(reply);
                           handled = true;
                         }}});
  auto channel = world().transport().Connect(server->address(), Lane::kData);
  EXPECT_EQ(channel->SinceProgress(), absl::InfiniteDuration());
  Outcome outcome;
  channel->Start(kPush, Message{Header(1), {Bytes(size_t{10} << 20, 1)}, 0, kLong}, kLong,
                 outcome.Completion());
  ASSERT_TRUE(world().Until([&] { return handled.load(); }));
  if (SeesBytesMove(GetParam().name)) {
    EXPECT_TRUE(world().Until([&] { return channel->SinceProgress() < absl::InfiniteDuration(); }));
  }
  kept(Message{Header(2), {}});
  EXPECT_TRUE(Await(outcome).ok());
}

TEST_P(TransportTest, AnAnswerOnItsWayIsProgressThatTheChannelTells) {
  const ByteSlice large = Bytes(size_t{10} << 20, 1);
  auto server = Listen({{"Pull", [&](Message, Reply reply) { reply(Message{"", {large}}); }}});
  auto channel = world().transport().Connect(server->address(), Lane::kData);
  ASSERT_TRUE(CallOnce(*channel, kPull, Message{Header(1), {}, large.size, kLong}).ok());
  if (!SeesBytesMove(GetParam().name)) return;
  EXPECT_TRUE(world().Until([&] { return channel->SinceProgress() < absl::InfiniteDuration(); }));
}

TEST_P(TransportTest, CallsWithLargeAnswersFailLikeOthers) {
  proto::ErrorDetail detail;
  detail.set_error_class(proto::STALE);
  Reply kept;
  auto server = Listen({{"Pull",
                         [&](Message, Reply reply) {
                           reply(WithDetail(absl::FailedPreconditionError("old"), detail));
                         }},
                        {"Push", [&](Message, Reply reply) { kept = std::move(reply); }}});
  auto channel = world().transport().Connect(server->address(), Lane::kData);
  const size_t large = size_t{100} << 20;
  const absl::Status failed = CallOnce(*channel, kPull, Message{"", {}, large}).status();
  EXPECT_EQ(failed.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(failed.message(), "old");
  EXPECT_EQ(DetailOf(failed).SerializeAsString(), detail.SerializeAsString());
  EXPECT_EQ(CallOnce(*channel, "/other.Service/Pull", Message{"", {}, large}).status().code(),
            absl::StatusCode::kUnimplemented);
  EXPECT_EQ(
      CallOnce(*channel, kPush, Message{"", {}, large}, absl::Milliseconds(50)).status().code(),
      absl::StatusCode::kDeadlineExceeded);
  Outcome outcome;
  auto call = channel->Start(kPush, Message{"", {}, large}, kLong, outcome.Completion());
  call->Cancel();
  EXPECT_EQ(Await(outcome).status().code(), absl::StatusCode::kCancelled);
  server.reset();
  EXPECT_EQ(CallOnce(*channel, kPush, Message{"", {}, large}).status().code(),
            absl::StatusCode::kUnavailable);
}

TEST_P(TransportTest, ManyLargePayloadsAtOnceArriveWhole) {
  auto server = Listen({{"Pull", Echo}});
  auto channel = world().transport().Connect(server->address(), Lane::kData);
  std::vector<std::unique_ptr<Outcome>> outcomes;
  std::vector<ByteSlice> sent;
  for (uint64_t i = 0; i < 6; ++i) {
    // Around the borders of parts, and below and above what travels whole.
    sent.push_back(Bytes((size_t{1} << 20) * (i + 1) + (i % 3) - 1, i));
    outcomes.push_back(std::make_unique<Outcome>());
    channel->Start(kPull, Message{Header(i + 1), {sent.back()}}, kLong,
                   outcomes.back()->Completion());
  }
  for (uint64_t i = 0; i < outcomes.size(); ++i) {
    const auto result = Await(*outcomes[i]);
    ASSERT_TRUE(result.ok()) << result.status();
    EXPECT_EQ(result->header, Header(i + 1));
    EXPECT_TRUE(Flatten(result->payload) == Flatten({sent[i]}));
  }
}

TEST_P(TransportTest, ConcurrentCallsKeepTheirAnswers) {
  auto server = Listen({{"Pull", Echo}});
  auto channel = world().transport().Connect(server->address(), Lane::kData);
  std::vector<std::unique_ptr<Outcome>> outcomes;
  for (uint64_t i = 0; i < 200; ++i) {
    outcomes.push_back(std::make_unique<Outcome>());
    channel->Start(kPull, Message{Header(i + 1), {Bytes(i * 100, i)}}, kLong,
                   outcomes.back()->Completion());
  }
  for (uint64_t i = 0; i < outcomes.size(); ++i) {
    const auto result = Await(*outcomes[i]);
    ASSERT_TRUE(result.ok()) << result.status();
    EXPECT_EQ(result->header, Header(i + 1));
    EXPECT_EQ(PayloadBytes(result->payload), i * 100);
  }
}

TEST_P(TransportTest, FailuresArriveWithCodeMessageAndDetail) {
  proto::ErrorDetail detail;
  detail.set_error_class(proto::STALE);
  detail.mutable_origin()->set_role("ps");
  detail.mutable_origin()->set_incarnation(99);
  detail.set_closure_id(12);
  auto server = Listen(
      {{"Pull",
        [&](Message, Reply reply) {
          reply(WithDetail(absl::FailedPreconditionError("epoch 3 \xc3\xa9poque\n"), detail));
        }},
       {"Push", [&](Message, Reply reply) { reply(absl::CancelledError("by the handler")); }}});
  auto channel = world().transport().Connect(server->address(), Lane::kControl);
  const absl::Status status = CallOnce(*channel, kPull, Message{}).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(status.message(), "epoch 3 \xc3\xa9poque\n");
  EXPECT_EQ(DetailOf(status).SerializeAsString(), detail.SerializeAsString());
  EXPECT_EQ(CallOnce(*channel, kPush, Message{}).status(), absl::CancelledError("by the handler"));
}

TEST_P(TransportTest, ALongErrorTextArrives) {
  auto server = Listen({{"Pull", [](Message, Reply reply) {
                           reply(absl::AbortedError(std::string(100000, '\n')));
                         }}});
  auto channel = world().transport().Connect(server->address(), Lane::kControl);
  const absl::Status status = CallOnce(*channel, kPull, Message{}).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kAborted);
  EXPECT_GE(status.message().size(), 1000u);
}

TEST_P(TransportTest, ADroppedReplyIsInternal) {
  auto server = Listen({{"Pull", [](Message, Reply) {}}});
  auto channel = world().transport().Connect(server->address(), Lane::kControl);
  const absl::Status status = CallOnce(*channel, kPull, Message{}).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInternal);
  EXPECT_NE(status.message().find("dropped"), absl::string_view::npos) << status;
}

TEST_P(TransportTest, OnlyTheFirstReplyCounts) {
  auto server = Listen({{"Pull", [](Message, Reply reply) {
                           reply(Message{Header(1), {}});
                           reply(Message{Header(2), {}});
                         }}});
  auto channel = world().transport().Connect(server->address(), Lane::kControl);
  const auto result = CallOnce(*channel, kPull, Message{});
  ASSERT_TRUE(result.ok());
  EXPECT_EQ(result->header, Header(1));
}

TEST_P(TransportTest, UnknownMethodsAreUnimplemented) {
  auto server = Listen({{"Pull", Echo}});
  auto channel = world().transport().Connect(server->address(), Lane::kControl);
  for (const char* method : {kPush, "/cohort.proto.PsService/None", "/other.Service/Pull"}) {
    EXPECT_EQ(CallOnce(*channel, method, Message{}).status().code(),
              absl::StatusCode::kUnimplemented)
        << method;
  }
}

TEST_P(TransportTest, MessagesOverTheLimitAreRefused) {
  message_bytes_max_ = 100000;
  auto server = Listen({{"Pull", Echo}, {"Push", [](Message, Reply reply) {
                                           reply(Message{"", {Bytes(100001, 1)}});
                                         }}});
  auto channel = world().transport().Connect(server->address(), Lane::kData);
  EXPECT_TRUE(CallOnce(*channel, kPull, Message{"", {Bytes(100000, 1)}}).ok());
  EXPECT_EQ(CallOnce(*channel, kPull, Message{"", {Bytes(100001, 1)}}).status().code(),
            absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(CallOnce(*channel, kPush, Message{}).status().code(),
            absl::StatusCode::kResourceExhausted);
}

TEST_P(TransportTest, PayloadMemoryIsReleasedAfterTheCall) {
  auto server = Listen({{"Push", [](Message, Reply reply) { reply(Message{}); }}});
  auto channel = world().transport().Connect(server->address(), Lane::kData);
  ByteSlice slice = Bytes(1 << 20, 1);
  const std::weak_ptr<const void> memory = slice.owner;
  Outcome outcome;
  auto call = channel->Start(kPush, Message{"", {slice}}, kLong, outcome.Completion());
  slice = ByteSlice();
  EXPECT_TRUE(Await(outcome).ok());
  EXPECT_TRUE(world().Until([&] { return memory.expired(); }));
}

// Whoever waits for the memory may be whom the answer waits for.
TEST_P(TransportTest, MemoryOfFramesIsReleasedWithoutAnAnswer) {
  for (const size_t bytes : {1 << 10, 300 << 10, 3 << 20, 9 << 20}) {
    SCOPED_TRACE(absl::StrCat(bytes, " bytes"));
    Mutex mutex;
    std::vector<Reply> replies;
    auto server = Listen({{"Push", [&](Message, Reply reply) {
                             MutexLock lock(mutex);
                             replies.push_back(std::move(reply));
                           }}});
    auto channel = world().transport().Connect(server->address(), Lane::kFrames);
    ByteSlice slice = Bytes(bytes, 1);
    const std::weak_ptr<const void> memory = slice.owner;
    Outcome outcome;
    auto call =
        channel->Start(kPush, Message{"", {slice}}, absl::InfiniteDuration(), outcome.Completion());
    slice = ByteSlice();
    EXPECT_TRUE(world().Until([&] { return memory.expired(); }));
    EXPECT_TRUE(world().Until([&] {
      MutexLock lock(mutex);
      return !replies.empty();
    }));
    EXPECT_FALSE(outcome.done());
    for (Reply& reply : replies) reply(Message{});
    EXPECT_TRUE(Await(outcome).ok());
  }
}

INSTANTIATE_TEST_SUITE_P(All, TransportTest, testing::ValuesIn(TransportWorlds()), NameOfWorld);

}  // namespace
}  // namespace cohort
