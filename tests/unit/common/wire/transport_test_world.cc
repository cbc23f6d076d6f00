#include "tests/unit/common/wire/transport_test_world.h"

#include "absl/strings/str_cat.h"
#include "common/base/real_clock.h"
#include "common/base/rng.h"
#include "common/base/thread_pool.h"
#include "common/wire/grpc/grpc_transport.h"
#include "common/wire/inprocess_transport.h"
#include "common/wire/route/auto_transport.h"
#include "common/wire/route/joined_transport.h"
#include "proto/ps.pb.h"
#include "tests/support/network/local_transport.h"
#include "tests/support/network/sim_transport.h"
#include "tests/support/world/sim_world.h"
#include "tests/unit/common/wire/tcp_frames_transport.h"

namespace cohort {

namespace {

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

// A channel of frames, whatever is asked for; the suite's long calls have no deadline, and so go on
// the stream that they share.
class FramesTransport final : public Transport {
 public:
  explicit FramesTransport(size_t message_bytes_max) : transport_({message_bytes_max}) {}
  absl::StatusOr<std::unique_ptr<Server>> Listen(const std::string& address,
                                                 std::vector<Service> services) override {
    return transport_.Listen(address, std::move(services));
  }
  std::shared_ptr<Channel> Connect(const std::string& address, Lane) override {
    return std::make_shared<FramesChannel>(transport_.Connect(address, Lane::kFrames));
  }

 private:
  class FramesChannel final : public Channel {
   public:
    explicit FramesChannel(std::shared_ptr<Channel> channel) : channel_(std::move(channel)) {}
    std::unique_ptr<Call> Start(absl::string_view method, Message request, absl::Duration timeout,
                                Reply done) override {
      return channel_->Start(method, std::move(request),
                             timeout == kLong ? absl::InfiniteDuration() : timeout,
                             std::move(done));
    }
    absl::Duration SinceProgress() const override { return channel_->SinceProgress(); }

   private:
    const std::shared_ptr<Channel> channel_;
  };

  GrpcTransport transport_;
};

class GrpcFramesWorld final : public ThreadedWorld {
 public:
  explicit GrpcFramesWorld(size_t message_bytes_max)
      : transport_(std::make_unique<FramesTransport>(message_bytes_max)) {}
  Transport& transport() override { return transport_; }
  std::string ListenAddress() override { return "127.0.0.1:0"; }

 private:
  JoinedTransport transport_;
};

template <bool kBlocks>
class LocalWorld final : public ThreadedWorld {
 public:
  explicit LocalWorld(size_t message_bytes_max)
      : transport_(
            std::make_unique<LocalTransport>(LocalTransport::Options{message_bytes_max, kBlocks})) {
  }
  Transport& transport() override { return transport_; }
  std::string ListenAddress() override { return "cohort-test:0"; }

 private:
  JoinedTransport transport_;
};

class TcpFramesWorld final : public ThreadedWorld {
 public:
  explicit TcpFramesWorld(size_t message_bytes_max)
      : transport_(std::make_unique<TcpFramesTransport>(message_bytes_max)) {}
  Transport& transport() override { return transport_; }
  std::string ListenAddress() override { return "127.0.0.1:0"; }

 private:
  JoinedTransport transport_;
};

template <TransportKind kKind>
class AutoWorld final : public ThreadedWorld {
 public:
  explicit AutoWorld(size_t message_bytes_max)
      : transport_(
            std::make_unique<AutoTransport>(AutoTransport::Options{message_bytes_max, kKind})) {}
  Transport& transport() override { return transport_; }
  std::string ListenAddress() override { return "127.0.0.1:0"; }

 private:
  JoinedTransport transport_;
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

}  // namespace

std::vector<WorldFactory> TransportWorlds() {
  return {
      {"InProcess", Make<InProcessWorld>},
      {"Simulated", Make<SimulatedWorld>},
      {"LocalShm", Make<LocalWorld<true>>},
      {"LocalUnix", Make<LocalWorld<false>>},
      {"TcpFrames", Make<TcpFramesWorld>},
// ThreadSanitizer does not see the locks of Debian's gRPC.
#ifndef __SANITIZE_THREAD__
      {"Grpc", Make<GrpcWorld>},
      {"GrpcFrames", Make<GrpcFramesWorld>},
      {"Auto", Make<AutoWorld<TransportKind::kAuto>>},
      {"Tcp", Make<AutoWorld<TransportKind::kTcp>>},
      {"Unix", Make<AutoWorld<TransportKind::kUnix>>},
      {"Shm", Make<AutoWorld<TransportKind::kShm>>},
#endif
  };
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

std::unique_ptr<Server> TransportTest::Listen(std::map<std::string, Handler> handlers) {
  return ListenAt(world().ListenAddress(), std::move(handlers));
}

std::unique_ptr<Server> TransportTest::ListenAt(const std::string& address,
                                                std::map<std::string, Handler> handlers) {
  Service service;
  service.descriptor = proto::PullRequest::descriptor()->file()->FindServiceByName("PsService");
  service.handlers = std::move(handlers);
  service.receive_budget = receive_budget_;
  auto server = world().transport().Listen(address, {std::move(service)});
  EXPECT_TRUE(server.ok()) << server.status();
  return server.ok() ? *std::move(server) : nullptr;
}

absl::StatusOr<Message> TransportTest::Await(Outcome& outcome) {
  if (!world().Until([&] { return outcome.done(); })) {
    ADD_FAILURE() << "the call does not end";
    return absl::UnknownError("hangs");
  }
  EXPECT_EQ(outcome.completions(), 1);
  return outcome.Take();
}

absl::StatusOr<Message> TransportTest::CallOnce(Channel& channel, absl::string_view method,
                                                Message request, absl::Duration timeout) {
  Outcome outcome;
  channel.Start(method, std::move(request), timeout, outcome.Completion());
  return Await(outcome);
}

absl::StatusOr<Message> TransportTest::CallUntilAvailable(Channel& channel) {
  for (int i = 0; i < 100000; ++i) {
    auto result = CallOnce(channel, kPull, Message{Header(1), {}});
    if (result.status().code() != absl::StatusCode::kUnavailable) return result;
  }
  return absl::UnknownError("stays unavailable");
}

TransportTestWorld& TransportTest::world() {
  if (world_ == nullptr) world_ = GetParam().make(message_bytes_max_);
  return *world_;
}

}  // namespace cohort
