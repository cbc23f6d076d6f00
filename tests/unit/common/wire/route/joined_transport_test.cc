#include "common/wire/route/joined_transport.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "common/base/event.h"
#include "common/wire/grpc/grpc_transport.h"
#include "proto/ps.pb.h"
#include "tests/support/network/local_transport.h"
#include "tests/unit/common/wire/transport_test_world.h"

namespace cohort {
namespace {

struct InnerTransport {
  const char* name;
  const char* address;
  std::unique_ptr<Transport> (*make)();
};

template <typename T>
std::unique_ptr<Transport> Make() {
  return std::make_unique<T>();
}

std::vector<InnerTransport> InnerTransports() {
  return {
      {"Local", "cohort-test:0", Make<LocalTransport>},
// ThreadSanitizer does not see the locks of Debian's gRPC.
#ifndef __SANITIZE_THREAD__
      {"Grpc", "127.0.0.1:0", Make<GrpcTransport>},
#endif
  };
}

class JoinedTransportTest : public testing::TestWithParam<InnerTransport> {
 protected:
  std::unique_ptr<Server> Listen(Handler pull) {
    Service service;
    service.descriptor = proto::PullRequest::descriptor()->file()->FindServiceByName("PsService");
    service.handlers = {{"Pull", std::move(pull)}};
    auto server = transport_->Listen(GetParam().address, {std::move(service)});
    EXPECT_TRUE(server.ok()) << server.status();
    return *std::move(server);
  }

  std::unique_ptr<JoinedTransport> transport_ =
      std::make_unique<JoinedTransport>(GetParam().make());
};

TEST_P(JoinedTransportTest, OpenCallsEndWithIt) {
  std::vector<Reply> kept;
  Event asked;
  const auto server = Listen([&](Message, Reply reply) {
    kept.push_back(std::move(reply));
    asked.Notify();
  });
  const auto channel = transport_->Connect(server->address(), Lane::kControl);
  Outcome outcome;
  channel->Start(kPull, Message{}, kLong, outcome.Completion());
  ASSERT_TRUE(asked.WaitFor(kLong));
  transport_.reset();
  ASSERT_EQ(outcome.completions(), 1);
  EXPECT_EQ(outcome.Take().status().code(), absl::StatusCode::kCancelled);
}

// A caller that asks again whenever it is answered, as a watch does, is over too.
TEST_P(JoinedTransportTest, NoCompletionRunsAfterIt) {
  const auto server = Listen(Echo);
  for (int round = 0; round < 50; ++round) {
    const auto channel = transport_->Connect(server->address(), Lane::kControl);
    const auto used = std::make_unique<std::atomic<int>>(0);  // freed memory to a late completion
    Event often;
    std::function<void()> ask = [&] {
      channel->Start(kPull, Message{}, kLong, [&](const absl::StatusOr<Message>& result) {
        if (++*used == 3) often.Notify();
        if (result.ok()) ask();
      });
    };
    ask();
    ASSERT_TRUE(often.WaitFor(kLong));
    transport_.reset();
    const int completions = *used;
    EXPECT_GE(completions, 3);
    transport_ = std::make_unique<JoinedTransport>(GetParam().make());
    EXPECT_EQ(*used, completions);
  }
}

TEST_P(JoinedTransportTest, AChannelThatOutlivesItCancelsWhatItStarts) {
  const auto server = Listen([](Message, const Reply&) {});
  const auto channel = transport_->Connect(server->address(), Lane::kControl);
  transport_.reset();
  Outcome outcome;
  channel->Start(kPull, Message{}, kLong, outcome.Completion());
  ASSERT_TRUE(outcome.WaitFor(kLong));
  EXPECT_FALSE(outcome.Take().ok());
}

// Ends each call, from a thread of its own, before Start returns.
class HastyTransport final : public Transport {
 public:
  absl::StatusOr<std::unique_ptr<Server>> Listen(const std::string&,
                                                 std::vector<Service>) override {
    return absl::UnimplementedError("nobody listens");
  }
  std::shared_ptr<Channel> Connect(const std::string&, Lane) override {
    return std::make_shared<HastyChannel>();
  }

 private:
  class EndedCall final : public Call {
    void Cancel() override {}
  };
  class HastyChannel final : public Channel {
   public:
    std::unique_ptr<Call> Start(absl::string_view, Message request, absl::Duration,
                                Reply done) override {
      std::thread([&] { std::exchange(done, nullptr)(std::move(request)); }).join();
      return std::make_unique<EndedCall>();
    }
  };
};

// Under a sanitizer: Start may not use the channel afterwards.
TEST(JoinedTransport, ACompletionMayReleaseTheChannelWhileItsCallIsBeingStarted) {
  JoinedTransport transport(std::make_unique<HastyTransport>());
  std::shared_ptr<Channel> channel = transport.Connect("task:0", Lane::kControl);
  Channel& started = *channel;
  const std::weak_ptr<Channel> released = channel;
  started.Start(
      kPull, Message{}, kLong,
      [held = std::move(channel)](const absl::StatusOr<Message>&) mutable { held.reset(); });
  EXPECT_TRUE(released.expired());
}

INSTANTIATE_TEST_SUITE_P(Inner, JoinedTransportTest, testing::ValuesIn(InnerTransports()),
                         [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace cohort
