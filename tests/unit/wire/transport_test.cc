// The conformance suite of transport.h, run on every implementation.

#include "common/wire/transport.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/posix_file_system.h"
#include "common/base/real_clock.h"
#include "common/base/rng.h"
#include "common/base/sim_world.h"
#include "common/base/thread_pool.h"
#include "common/wire/error_detail.h"
#include "common/wire/frame_limits.h"
#include "common/wire/grpc_transport.h"
#include "common/wire/inprocess_transport.h"
#include "common/wire/sim_transport.h"
#include "proto/ps.pb.h"
#include "tests/unit/wire/transport_test_world.h"

namespace cohort {
namespace {

constexpr char kPull[] = "/cohort.proto.PsService/Pull";
constexpr char kPush[] = "/cohort.proto.PsService/Push";
constexpr absl::Duration kLong = absl::Seconds(60);

const google::protobuf::ServiceDescriptor* PsDescriptor() {
  return proto::PullRequest::descriptor()->file()->FindServiceByName("PsService");
}

Service ServiceOf(std::map<std::string, Handler> handlers) {
  return Service{PsDescriptor(), std::move(handlers)};
}

void Echo(Message request, Reply reply) { reply(std::move(request)); }

ByteSlice Bytes(size_t size, uint64_t seed) {
  auto bytes = std::make_shared<std::string>(size, '\0');
  for (size_t i = 0; i < size; i += 61) (*bytes)[i] = static_cast<char>(Mix64(seed + i));
  const auto* data = reinterpret_cast<const std::byte*>(bytes->data());
  return {std::move(bytes), data, size};
}

std::string Flatten(const Payload& payload) {
  std::string bytes;
  for (const ByteSlice& slice : payload) {
    bytes.append(reinterpret_cast<const char*>(slice.data), slice.size);
  }
  return bytes;
}

std::string Header(uint64_t epoch) {
  proto::PullRequest request;
  request.set_epoch(epoch);
  return request.SerializeAsString();
}

class TransportTest : public testing::TestWithParam<WorldFactory> {
 protected:
  std::unique_ptr<Server> Listen(std::map<std::string, Handler> handlers) {
    return ListenAt(world().ListenAddress(), std::move(handlers));
  }
  std::unique_ptr<Server> ListenAt(const std::string& address,
                                   std::map<std::string, Handler> handlers) {
    auto server = world().transport().Listen(address, {ServiceOf(std::move(handlers))});
    EXPECT_TRUE(server.ok()) << server.status();
    return server.ok() ? *std::move(server) : nullptr;
  }

  absl::StatusOr<Message> Await(Outcome& outcome) {
    if (!world().Until([&] { return outcome.done(); })) {
      ADD_FAILURE() << "the call does not end";
      return absl::UnknownError("hangs");
    }
    EXPECT_EQ(outcome.completions(), 1);
    return outcome.Take();
  }

  absl::StatusOr<Message> CallOnce(Channel& channel, absl::string_view method, Message request,
                                   absl::Duration timeout = kLong) {
    Outcome outcome;
    channel.Start(method, std::move(request), timeout, outcome.Completion());
    return Await(outcome);
  }

  // As a caller does while a task comes up: again after UNAVAILABLE.
  absl::StatusOr<Message> CallUntilAvailable(Channel& channel) {
    for (int i = 0; i < 100000; ++i) {
      auto result = CallOnce(channel, kPull, Message{Header(1), {}});
      if (result.status().code() != absl::StatusCode::kUnavailable) return result;
    }
    return absl::UnknownError("stays unavailable");
  }

  TransportTestWorld& world() {
    if (world_ == nullptr) world_ = GetParam().make(message_bytes_max_);
    return *world_;
  }

  size_t message_bytes_max_ = kMessageBytesMax;

 private:
  std::unique_ptr<TransportTestWorld> world_;
};

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

TEST_P(TransportTest, ACallWithoutAnswerEndsAtItsDeadline) {
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

TEST_P(TransportTest, AnyTimeoutIsTaken) {
  auto server = Listen({{"Pull", Echo}});
  auto channel = world().transport().Connect(server->address(), Lane::kControl);
  EXPECT_TRUE(CallOnce(*channel, kPull, Message{}, absl::InfiniteDuration()).ok());
  EXPECT_EQ(CallOnce(*channel, kPull, Message{}, -absl::InfiniteDuration()).status().code(),
            absl::StatusCode::kDeadlineExceeded);
  server->Drain(absl::InfiniteDuration());
}

TEST_P(TransportTest, CancelEndsACall) {
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

TEST_P(TransportTest, CancelAfterTheEndDoesNothing) {
  auto server = Listen({{"Pull", Echo}});
  auto channel = world().transport().Connect(server->address(), Lane::kControl);
  Outcome outcome;
  auto call = channel->Start(kPull, Message{}, kLong, outcome.Completion());
  EXPECT_TRUE(Await(outcome).ok());
  call->Cancel();
  EXPECT_TRUE(CallOnce(*channel, kPull, Message{}).ok());
  EXPECT_EQ(outcome.completions(), 1);
}

TEST_P(TransportTest, NobodyListensIsUnavailable) {
  auto server = Listen({{"Pull", Echo}});
  const std::string address = server->address();
  server.reset();
  auto channel = world().transport().Connect(address, Lane::kControl);
  const auto result = CallOnce(*channel, kPull, Message{});
  EXPECT_EQ(result.status().code(), absl::StatusCode::kUnavailable);
  EXPECT_NE(result.status().message().find(address), absl::string_view::npos) << result.status();
}

TEST_P(TransportTest, AServerThatStopsFailsItsOpenCalls) {
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

TEST_P(TransportTest, AServerMayComeLateAndComeBack) {
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

TEST_P(TransportTest, AnAddressInUseIsAnErrorThatNamesIt) {
  auto server = Listen({{"Pull", Echo}});
  const auto second = world().transport().Listen(server->address(), {ServiceOf({{"Pull", Echo}})});
  ASSERT_FALSE(second.ok());
  EXPECT_NE(second.status().message().find(server->address()), absl::string_view::npos)
      << second.status();
  auto channel = world().transport().Connect(server->address(), Lane::kControl);
  EXPECT_TRUE(CallOnce(*channel, kPull, Message{}).ok());
}

TEST_P(TransportTest, DrainLetsOpenCallsFinishAndRefusesNewOnes) {
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

// Real threads: the transport outside, whatever answers from other threads inside.
class ThreadedWorld : public TransportTestWorld {
 public:
  bool Until(const std::function<bool()>& holds) override {
    const absl::Time end = clock_.Now() + absl::Seconds(60);
    Mutex mutex;
    CondVar never;
    while (!holds()) {
      if (clock_.Now() > end) return false;
      MutexLock lock(mutex);
      never.WaitFor(mutex, absl::Milliseconds(1));
    }
    return true;
  }

 protected:
  RealClock clock_;
};

class InProcessWorld final : public ThreadedWorld {
 public:
  explicit InProcessWorld(size_t message_bytes_max)
      : transport_(clock_, pool_, {message_bytes_max}) {}
  Transport& transport() override { return transport_; }
  std::string ListenAddress() override { return "task:0"; }

 private:
  ThreadPool pool_{{.name = "test", .threads = 4}};
  InProcessTransport transport_;
};

class GrpcWorld final : public ThreadedWorld {
 public:
  explicit GrpcWorld(size_t message_bytes_max) : transport_({message_bytes_max}) {}
  Transport& transport() override { return transport_; }
  std::string ListenAddress() override { return "127.0.0.1:0"; }

 private:
  GrpcTransport transport_;
};

class SimulatedWorld final : public TransportTestWorld {
 public:
  explicit SimulatedWorld(size_t message_bytes_max)
      : network_(world_, OptionsFor(message_bytes_max)) {}
  Transport& transport() override { return *transport_; }
  std::string ListenAddress() override { return "task:0"; }
  bool Until(const std::function<bool()>& holds) override {
    return world_.RunUntil(holds, absl::Hours(1));
  }

 private:
  static SimNetwork::Options OptionsFor(size_t message_bytes_max) {
    SimNetwork::Options options;
    options.message_bytes_max = message_bytes_max;
    return options;
  }

  SimWorld world_{1};
  SimNetwork network_;
  std::unique_ptr<Transport> transport_ = network_.TransportOf("host");
};

template <typename World>
std::unique_ptr<TransportTestWorld> Make(size_t message_bytes_max) {
  return std::make_unique<World>(message_bytes_max);
}

std::string NameOf(const testing::TestParamInfo<WorldFactory>& info) { return info.param.name; }

INSTANTIATE_TEST_SUITE_P(InProcess, TransportTest,
                         testing::Values(WorldFactory{"InProcess", Make<InProcessWorld>}), NameOf);

INSTANTIATE_TEST_SUITE_P(Simulated, TransportTest,
                         testing::Values(WorldFactory{"Simulated", Make<SimulatedWorld>}), NameOf);

// ThreadSanitizer does not see the locks of Debian's gRPC.
#ifndef __SANITIZE_THREAD__
INSTANTIATE_TEST_SUITE_P(Grpc, TransportTest,
                         testing::Values(WorldFactory{"Grpc", Make<GrpcWorld>}), NameOf);
#endif

}  // namespace
}  // namespace cohort
