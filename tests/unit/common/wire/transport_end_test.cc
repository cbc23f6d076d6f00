// The conformance suite of transport.h: how calls and servers end.

#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <vector>

#include "common/wire/transport.h"
#include "proto/ps.pb.h"
#include "tests/unit/common/wire/transport_test_world.h"

namespace cohort {
namespace {

class TransportEndTest : public TransportTest {};

TEST_P(TransportEndTest, ACallWithoutAnswerEndsAtItsDeadline) {
  std::vector<Reply> kept;
  auto server = Listen({{"Pull", [&](Message, Reply reply) { kept.push_back(std::move(reply)); }}});
  auto channel = world().transport().Connect(server->address(), Lane::kControl);
  const auto result = CallOnce(*channel, kPull, Message{}, absl::Milliseconds(50));
  EXPECT_EQ(result.status().code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_NE(result.status().message().find("PsService/Pull"), absl::string_view::npos)
      << result.status();
  server.reset();
  for (Reply& reply : kept) reply(Message{});  // late answers go nowhere
}

TEST_P(TransportEndTest, ACallOfWhichNothingMovesEndsAtItsSilence) {
  std::vector<Reply> kept;
  auto server = Listen({{"Pull", [&](Message, Reply reply) { kept.push_back(std::move(reply)); }}});
  for (const Lane lane : {Lane::kControl, Lane::kData, Lane::kFrames}) {
    for (const size_t expected : {size_t{0}, size_t{100} << 20}) {
      auto channel = world().transport().Connect(server->address(), lane);
      const auto result =
          CallOnce(*channel, kPull, Message{"", {}, expected, absl::Milliseconds(50)});
      EXPECT_EQ(result.status().code(), absl::StatusCode::kDeadlineExceeded) << result.status();
    }
  }
  auto channel = world().transport().Connect(server->address(), Lane::kData);
  EXPECT_EQ(CallOnce(*channel, kPull, Message{"", {}, 0, absl::ZeroDuration()}).status().code(),
            absl::StatusCode::kDeadlineExceeded);
  server.reset();
  for (Reply& reply : kept) reply(Message{});
}

TEST_P(TransportEndTest, AnyTimeoutIsTaken) {
  auto server = Listen({{"Pull", Echo}});
  auto channel = world().transport().Connect(server->address(), Lane::kControl);
  EXPECT_TRUE(CallOnce(*channel, kPull, Message{}, absl::InfiniteDuration()).ok());
  EXPECT_EQ(CallOnce(*channel, kPull, Message{}, -absl::InfiniteDuration()).status().code(),
            absl::StatusCode::kDeadlineExceeded);
  server->Drain(absl::InfiniteDuration());
}

TEST_P(TransportEndTest, CancelEndsACall) {
  std::atomic<int> handled{0};
  Reply kept;
  auto server = Listen({{"Pull", [&](Message, Reply reply) {
                           kept = std::move(reply);
                           ++handled;
                         }}});
  auto channel = world().transport().Connect(server->address(), Lane::kControl);
  Outcome outcome;
  auto call = channel->Start(kPull, Message{}, kLong, outcome.Completion());
  ASSERT_TRUE(world().Until([&] { return handled == 1; }));
  EXPECT_FALSE(outcome.done());
  call->Cancel();
  EXPECT_EQ(Await(outcome).status().code(), absl::StatusCode::kCancelled);
  call->Cancel();
  server.reset();
  EXPECT_EQ(outcome.completions(), 1);
}

TEST_P(TransportEndTest, CancelAfterTheEndDoesNothing) {
  auto server = Listen({{"Pull", Echo}});
  auto channel = world().transport().Connect(server->address(), Lane::kControl);
  Outcome outcome;
  auto call = channel->Start(kPull, Message{}, kLong, outcome.Completion());
  EXPECT_TRUE(Await(outcome).ok());
  call->Cancel();
  EXPECT_TRUE(CallOnce(*channel, kPull, Message{}).ok());
  EXPECT_EQ(outcome.completions(), 1);
}

TEST_P(TransportEndTest, NobodyListensIsUnavailable) {
  auto server = Listen({{"Pull", Echo}});
  const std::string address = server->address();
  server.reset();
  auto channel = world().transport().Connect(address, Lane::kControl);
  const auto result = CallOnce(*channel, kPull, Message{});
  EXPECT_EQ(result.status().code(), absl::StatusCode::kUnavailable);
  EXPECT_NE(result.status().message().find(address), absl::string_view::npos) << result.status();
}

TEST_P(TransportEndTest, AServerThatStopsFailsItsOpenCalls) {
  std::atomic<int> handled{0};
  std::vector<Reply> kept;
  auto server = Listen({{"Pull", [&](Message, Reply reply) {
                           kept.push_back(std::move(reply));
                           ++handled;
                         }}});
  auto channel = world().transport().Connect(server->address(), Lane::kControl);
  Outcome outcome;
  channel->Start(kPull, Message{}, kLong, outcome.Completion());
  ASSERT_TRUE(world().Until([&] { return handled == 1; }));
  server.reset();
  EXPECT_EQ(Await(outcome).status().code(), absl::StatusCode::kUnavailable);
  for (Reply& reply : kept) reply(Message{});
}

TEST_P(TransportEndTest, AServerMayComeLateAndComeBack) {
  auto first = Listen({{"Pull", Echo}});
  const std::string address = first->address();
  first.reset();
  auto channel = world().transport().Connect(address, Lane::kControl);
  EXPECT_EQ(CallOnce(*channel, kPull, Message{}).status().code(), absl::StatusCode::kUnavailable);
  for (int restart = 0; restart < 3; ++restart) {
    auto server = ListenAt(address, {{"Pull", Echo}});
    ASSERT_NE(server, nullptr);
    EXPECT_EQ(server->address(), address);
    const auto result = CallUntilAvailable(*channel);
    EXPECT_TRUE(result.ok()) << result.status();
  }
}

TEST_P(TransportEndTest, AnAddressInUseIsAnErrorThatNamesIt) {
  auto server = Listen({{"Pull", Echo}});
  const auto second = world().transport().Listen(server->address(), {});
  ASSERT_FALSE(second.ok());
  EXPECT_NE(second.status().message().find(server->address()), absl::string_view::npos)
      << second.status();
  auto channel = world().transport().Connect(server->address(), Lane::kControl);
  EXPECT_TRUE(CallOnce(*channel, kPull, Message{}).ok());
}

TEST_P(TransportEndTest, DrainLetsOpenCallsFinishAndRefusesNewOnes) {
  std::atomic<int> handled{0};
  Reply kept;
  auto server = Listen({{"Pull", [&](Message, Reply reply) {
                           kept = std::move(reply);
                           ++handled;
                         }}});
  auto channel = world().transport().Connect(server->address(), Lane::kControl);
  Outcome open;
  channel->Start(kPull, Message{}, kLong, open.Completion());
  ASSERT_TRUE(world().Until([&] { return handled == 1; }));
  server->Drain(absl::ZeroDuration());
  EXPECT_EQ(CallOnce(*channel, kPull, Message{}).status().code(), absl::StatusCode::kUnavailable);
  EXPECT_FALSE(open.done());
  kept(Message{Header(5), {Bytes(1 << 20, 3)}});
  server->Drain(kLong);
  server.reset();
  const auto result = Await(open);
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(PayloadBytes(result->payload), size_t{1} << 20);
}

// What the handlers of a server share, as a service does that answers later. Thread-safe: the
// handler alone touches the replies, and then the last who lets go of it.
struct KeepsReplies {
  std::vector<Reply> kept;
};

// The handlers keep the service and the service the replies: they must not keep the handlers.
TEST_P(TransportEndTest, AServiceThatKeepsItsRepliesEndsWithTheServer) {
  auto service = std::make_shared<KeepsReplies>();
  const std::weak_ptr<KeepsReplies> alive = service;
  std::atomic<int> handled{0};
  auto server = Listen({{"Pull", [service, &handled](Message, Reply reply) {
                           service->kept.push_back(std::move(reply));
                           ++handled;
                         }}});
  service = nullptr;
  auto channel = world().transport().Connect(server->address(), Lane::kControl);
  Outcome outcome;
  channel->Start(kPull, Message{}, kLong, outcome.Completion());
  ASSERT_TRUE(world().Until([&] { return handled == 1; }));
  EXPECT_FALSE(alive.expired());
  server.reset();
  EXPECT_EQ(Await(outcome).status().code(), absl::StatusCode::kUnavailable);
  channel = nullptr;
  // The last to let go may be a thread of the transport.
  EXPECT_TRUE(world().Until([&] { return alive.expired(); }));
}

INSTANTIATE_TEST_SUITE_P(All, TransportEndTest, testing::ValuesIn(TransportWorlds()), NameOfWorld);

}  // namespace
}  // namespace cohort
