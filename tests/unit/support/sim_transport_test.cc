// What the simulated network adds to the conformance suite: determinism and faults.

#include "tests/support/network/sim_transport.h"

#include <gtest/gtest.h>

#include <map>
#include <set>
#include <string>

#include "absl/strings/str_cat.h"
#include "proto/ps.pb.h"

namespace cohort {
namespace {

constexpr char kPull[] = "/cohort.proto.PsService/Pull";

Service PullService(Handler handler) {
  return Service{proto::PullRequest::descriptor()->file()->FindServiceByName("PsService"),
                 {{"Pull", std::move(handler)}}};
}

Message Numbered(uint64_t number) {
  proto::PullRequest request;
  request.set_epoch(number);
  return Message{request.SerializeAsString(), {}};
}

struct RunResult {
  uint64_t trace_hash = 0;
  std::map<absl::StatusCode, int> ends;
  int handled = 0;
  std::string order;
};

// 100 calls from two hosts to a third.
RunResult RunCalls(uint64_t seed, const FaultPlan& faults) {
  SimWorld world(seed);
  SimNetwork network(world);
  network.SetFaults(faults);
  RunResult result;
  auto server_side = network.TransportOf("server");
  auto server = *server_side->Listen("server:0", {PullService([&](Message message, Reply reply) {
                                       ++result.handled;
                                       reply(std::move(message));
                                     })});
  auto a = network.TransportOf("a");
  auto b = network.TransportOf("b");
  auto from_a = a->Connect(server->address(), Lane::kData);
  auto from_b = b->Connect(server->address(), Lane::kData);
  int ended = 0;
  for (int i = 0; i < 100; ++i) {
    (i % 2 == 0 ? from_a : from_b)
        ->Start(kPull, Numbered(static_cast<uint64_t>(i) + 1), absl::Minutes(1),
                [&, i](absl::StatusOr<Message> message) {
                  ++ended;
                  ++result.ends[message.status().code()];
                  absl::StrAppend(&result.order, i, " ");
                });
  }
  EXPECT_TRUE(world.RunUntil([&] { return ended == 100; }, absl::Hours(1))) << "seed " << seed;
  world.RunFor(absl::Hours(1));
  EXPECT_EQ(ended, 100) << "each call ends once, seed " << seed;
  result.trace_hash = world.trace_hash();
  return result;
}

TEST(SimTransport, ASeedIsOneRun) {
  FaultPlan faults;
  faults.lose_request = faults.lose_response = faults.duplicate_request = faults.delay = 0.1;
  std::set<uint64_t> hashes;
  std::set<std::string> orders;
  for (uint64_t seed = 1; seed <= 10; ++seed) {
    const RunResult first = RunCalls(seed, faults);
    const RunResult second = RunCalls(seed, faults);
    EXPECT_EQ(first.trace_hash, second.trace_hash) << "seed " << seed;
    EXPECT_EQ(first.order, second.order) << "seed " << seed;
    hashes.insert(first.trace_hash);
    orders.insert(first.order);
  }
  EXPECT_EQ(hashes.size(), 10u);
  EXPECT_EQ(orders.size(), 10u);
}

TEST(SimTransport, WithoutFaultsAllCallsSucceed) {
  const RunResult result = RunCalls(3, FaultPlan());
  EXPECT_EQ(result.ends, (std::map<absl::StatusCode, int>{{absl::StatusCode::kOk, 100}}));
  EXPECT_EQ(result.handled, 100);
}

// As an operation owns the calls of its frames, whose completions own it.
TEST(SimTransport, WhoWaitsForACallOfADeadProcessGoesWithTheNetwork) {
  struct Caller {
    std::unique_ptr<Call> call;
  };
  const auto caller = std::make_shared<Caller>();
  std::weak_ptr<Caller> weak = caller;
  SimWorld world(1);
  {
    SimNetwork network(world);
    auto transport = network.TransportOf("a");
    auto channel = transport->Connect("server:1", Lane::kData);
    caller->call = channel->Start(kPull, Numbered(1), absl::InfiniteDuration(),
                                  [held = caller](const absl::StatusOr<Message>&) {
                                    FAIL() << "a dead process is told nothing";
                                  });
    network.Kill("a");
    world.RunFor(absl::Hours(1));
  }
  const long users = weak.use_count();
  EXPECT_EQ(users, 1) << "the test's own";
}

TEST(SimTransport, LostMessagesAreUnavailableOrLate) {
  FaultPlan faults;
  faults.lose_request = 1;
  RunResult result = RunCalls(3, faults);
  EXPECT_EQ(result.handled, 0);
  EXPECT_EQ(result.ends.size(), 2u);
  EXPECT_GT(result.ends[absl::StatusCode::kUnavailable], 0);
  EXPECT_GT(result.ends[absl::StatusCode::kDeadlineExceeded], 0);
}

TEST(SimTransport, AMessageWhoseStreamIsCutWasNeverSent) {
  SimNetwork::Options options;
  options.whole_bytes_max = 100;
  options.part_bytes = 100;
  std::set<std::string> cuts;
  for (uint64_t seed = 1; seed <= 60; ++seed) {
    SimWorld world(seed);
    SimNetwork network(world, options);
    network.SetFaults({.cut_stream = 0.2});
    std::string cut;
    world.SetTraceSink([&](absl::string_view event) {
      const size_t at = event.find(" cut ");  // behind the time
      if (at != event.npos) cut = std::string(event.substr(at));
    });
    auto server_side = network.TransportOf("server");
    int handled = 0;
    auto server = *server_side->Listen("server:0", {PullService([&](Message message, Reply reply) {
                                         ++handled;
                                         reply(std::move(message));
                                       })});
    auto client = network.TransportOf("a");
    auto channel = client->Connect(server->address(), Lane::kData);
    const auto bytes = std::make_shared<const std::string>(420, 'x');
    const auto* const data = reinterpret_cast<const std::byte*>(bytes->data());
    absl::StatusOr<Message> answer = absl::UnknownError("none");
    channel->Start(kPull, Message{"", {{bytes, data, bytes->size()}}}, absl::Minutes(1),
                   [&](absl::StatusOr<Message> message) { answer = std::move(message); });
    world.RunFor(absl::Minutes(2));
    EXPECT_EQ(handled, cut.find("request") == std::string::npos ? 1 : 0) << seed << " " << cut;
    EXPECT_EQ(answer.ok(), cut.empty()) << seed << " " << cut << " " << answer.status();
    EXPECT_NE(answer.status().code(), absl::StatusCode::kUnknown) << "the call ended";
    EXPECT_EQ(answer.ok() ? PayloadBytes(answer->payload) : 420u, 420u);
    cuts.insert(cut);
  }
  EXPECT_EQ(cuts.size(), 9u) << "none, and after each of four parts each way";
}

TEST(SimTransport, ALostResponseMeansTheHandlerRan) {
  FaultPlan faults;
  faults.lose_response = 1;
  RunResult result = RunCalls(3, faults);
  EXPECT_EQ(result.handled, 100);
  EXPECT_EQ(result.ends.count(absl::StatusCode::kOk), 0u);
}

TEST(SimTransport, ADuplicateRunsTheHandlerTwiceAndEndsTheCallOnce) {
  FaultPlan faults;
  faults.duplicate_request = 1;
  RunResult result = RunCalls(3, faults);
  EXPECT_EQ(result.handled, 200);
  EXPECT_EQ(result.ends[absl::StatusCode::kOk], 100);
}

class SimFaultTest : public testing::Test {
 protected:
  void SetUp() override { server_ = ListenOn(*server_side_); }

  std::unique_ptr<Server> ListenOn(Transport& transport) {
    auto server = transport.Listen("server:80", {PullService([this](Message message, Reply reply) {
                                     if (hold_) return kept_.push_back(std::move(reply));
                                     reply(std::move(message));
                                   })});
    EXPECT_TRUE(server.ok()) << server.status();
    return *std::move(server);
  }

  absl::StatusCode CallFrom(Transport& transport) {
    absl::StatusCode code = absl::StatusCode::kUnknown;
    bool done = false;
    transport.Connect("server:80", Lane::kControl)
        ->Start(kPull, Numbered(1), absl::Minutes(1), [&](absl::StatusOr<Message> result) {
          code = result.status().code();
          done = true;
        });
    EXPECT_TRUE(world_.RunUntil([&] { return done; }, absl::Hours(1)));
    return code;
  }

  SimWorld world_{1};
  SimNetwork network_{world_};
  bool hold_ = false;
  std::vector<Reply> kept_;
  std::unique_ptr<Transport> server_side_ = network_.TransportOf("server");
  std::unique_ptr<Transport> a_ = network_.TransportOf("a");
  std::unique_ptr<Transport> b_ = network_.TransportOf("b");
  std::unique_ptr<Server> server_;
};

TEST_F(SimFaultTest, ACutLinkLosesMessagesOfThatLinkAlone) {
  network_.Cut("server", "a");
  EXPECT_NE(CallFrom(*a_), absl::StatusCode::kOk);
  EXPECT_EQ(CallFrom(*b_), absl::StatusCode::kOk);
  network_.Heal("a", "server");
  EXPECT_EQ(CallFrom(*a_), absl::StatusCode::kOk);
}

TEST_F(SimFaultTest, ALinkThatIsCutOneWayLosesResponsesAlone) {
  network_.CutOneWay("server", "a");
  hold_ = true;
  absl::StatusCode code = absl::StatusCode::kOk;
  a_->Connect("server:80", Lane::kControl)
      ->Start(kPull, Numbered(1), absl::Minutes(1),
              [&](absl::StatusOr<Message> result) { code = result.status().code(); });
  world_.RunFor(absl::Seconds(1));
  ASSERT_EQ(kept_.size(), 1u);
  kept_[0](Numbered(1));
  world_.RunFor(absl::Hours(1));
  EXPECT_NE(code, absl::StatusCode::kOk);
  hold_ = false;
  network_.Heal("a", "server");
  EXPECT_EQ(CallFrom(*a_), absl::StatusCode::kOk);
}

// Kills the server at one point of the first call.
class KillingWatcher final : public SimWatcher {
 public:
  enum class Point { kArrival, kResponse };
  KillingWatcher(SimNetwork& network, Point point) : network_(network), point_(point) {}

  SimFate OnRequest(const SimMessage& message) override {
    EXPECT_EQ(message.from, "a");
    EXPECT_EQ(message.to, "server");
    return {};
  }
  void OnArrival(const SimMessage& message) override {
    if (point_ == Point::kArrival) network_.Kill(message.to);
  }
  SimFate OnResponse(const SimMessage& message) override {
    EXPECT_EQ(message.request, Numbered(1).header);
    EXPECT_TRUE(message.response->ok());
    ++responses;
    if (point_ == Point::kResponse) network_.Kill(message.to);
    return {};
  }

  int responses = 0;

 private:
  SimNetwork& network_;
  const Point point_;
};

TEST_F(SimFaultTest, AWatcherKillsBeforeTheHandlerOrAfterItsEffect) {
  KillingWatcher before(network_, KillingWatcher::Point::kArrival);
  network_.SetWatcher(&before);
  EXPECT_EQ(CallFrom(*a_), absl::StatusCode::kUnavailable);
  EXPECT_EQ(before.responses, 0);
  auto again = network_.TransportOf("server");
  auto server = ListenOn(*again);
  KillingWatcher after(network_, KillingWatcher::Point::kResponse);
  network_.SetWatcher(&after);
  EXPECT_EQ(CallFrom(*a_), absl::StatusCode::kUnavailable);
  EXPECT_EQ(after.responses, 1);
}

TEST_F(SimFaultTest, AKilledServerFailsItsOpenCallsSoonAndMayComeBack) {
  hold_ = true;
  absl::StatusCode code = absl::StatusCode::kOk;
  a_->Connect("server:80", Lane::kControl)
      ->Start(kPull, Numbered(1), absl::Minutes(1),
              [&](absl::StatusOr<Message> result) { code = result.status().code(); });
  ASSERT_TRUE(world_.RunUntil([&] { return kept_.size() == 1; }, absl::Hours(1)));
  network_.Kill("server");
  world_.RunFor(absl::Seconds(1));
  EXPECT_EQ(code, absl::StatusCode::kUnavailable);
  kept_[0](Numbered(1));  // a dead process's answer goes nowhere
  hold_ = false;
  EXPECT_EQ(CallFrom(*a_), absl::StatusCode::kUnavailable);
  auto again = network_.TransportOf("server");
  auto server = ListenOn(*again);
  EXPECT_EQ(CallFrom(*a_), absl::StatusCode::kOk);
  server_.reset();  // the dead one's end does not disturb the new one
  EXPECT_EQ(CallFrom(*a_), absl::StatusCode::kOk);
}

TEST_F(SimFaultTest, AKilledCallerHearsNothing) {
  bool heard = false;
  a_->Connect("server:80", Lane::kControl)
      ->Start(kPull, Numbered(1), absl::Minutes(1), [&](absl::StatusOr<Message>) { heard = true; });
  network_.Kill("a");
  world_.RunFor(absl::Hours(1));
  EXPECT_FALSE(heard);
}

using SimDeathTest = SimFaultTest;

TEST_F(SimDeathTest, WritingMemoryThatIsBeingSentIsCaught) {
  Tensor tensor = Tensor::Zeros(DType::kFloat32, Shape{100});
  EXPECT_DEATH(
      {
        a_->Connect("server:80", Lane::kData)
            ->Start(kPull, Message{"", {SliceOf(tensor)}}, absl::Minutes(1),
                    [](absl::StatusOr<Message>) {});
        *tensor.mutable_data<float>() = 1;
        world_.RunFor(absl::Hours(1));
      },
      "written while being sent");
}

}  // namespace
}  // namespace cohort
