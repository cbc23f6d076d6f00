// Many clients that push and pull at once: what a ps holds for them is bounded, and every push
// counts once. The sums are arithmetic.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/wire/error_detail.h"
#include "common/wire/grpc/grpc_transport.h"
#include "common/wire/route/joined_transport.h"
#include "tests/sim/stopping_executor.h"
#include "tests/support/network/local_transport.h"
#include "tests/support/network/sim_transport.h"
#include "tests/support/world/memory_file_system.h"
#include "tests/support/world/sim_world.h"
#include "tests/unit/ps_server/ps_test_support.h"

namespace cohort {
namespace {

constexpr char kPush[] = "/cohort.proto.PsService/Push";
constexpr char kPull[] = "/cohort.proto.PsService/Pull";

Tensor Filled(int64_t elements, int64_t value) {
  return Tensor::FromVector(std::vector<int64_t>(static_cast<size_t>(elements), value),
                            Shape{elements});
}

std::vector<proto::VariableLayout> OneSum(int64_t elements) {
  return LayOut({{"sum", DType::kInt64, Shape{elements}, Rule("assign_add", {}), "zeros"}}, 1);
}

Envelope<proto::AttachRequest> AttachOf(uint64_t epoch) {
  Envelope<proto::AttachRequest> attach;
  attach.header.set_epoch(epoch);
  attach.header.set_coordinator_incarnation(kTestCoordinator);
  return attach;
}

// A ps whose machine is busy and that has room for a few pushes, and many workers.
class CrowdedSim : public SimWatcher {
 public:
  static constexpr int64_t kElements = 10000;  // more than is answered inline
  static constexpr size_t kPushBytes = kElements * sizeof(int64_t);
  static constexpr size_t kBudget = 5 * kPushBytes + 100;

  CrowdedSim(uint64_t seed, int workers) : world_(seed), network_(world_, NetworkOptions()) {
    network_.SetWatcher(this);
    PsTask::Options options;
    options.task = {Role::kPs, 0};
    options.listen_address = "ps:0";
    options.incarnation = 900;
    options.receive_bytes_max = kBudget;
    options.send_bytes_max = kBudget;
    ps_ = std::make_unique<PsTask>(World{world_, executor_, files_, *ps_transport_}, options);
    address_ = *ps_->Start();
    for (int i = 0; i <= workers; ++i) {
      transports_.push_back(network_.TransportOf(absl::StrCat("worker:", i)));
      channels_.push_back(transports_.back()->Connect(address_, Lane::kData));
    }
    EXPECT_TRUE(Answer("/cohort.proto.TaskService/Attach", Pack(AttachOf(kTestEpoch))).ok());
    EXPECT_TRUE(Answer("/cohort.proto.PsService/CreateVariables",
                       Message{CreateRequest(OneSum(kElements)).SerializeAsString(), {}})
                    .ok());
  }
  ~CrowdedSim() override { network_.SetWatcher(nullptr); }

  using Done = std::function<void(const absl::StatusOr<Message>&)>;
  void CallUntilAnswered(int worker, const std::string& method, const Message& request, Done done) {
    channels_[static_cast<size_t>(worker)]->Start(
        method, request, absl::Seconds(60), [=, this](absl::StatusOr<Message> answer) {
          if (absl::IsUnavailable(answer.status()) || absl::IsDeadlineExceeded(answer.status())) {
            return CallUntilAnswered(worker, method, request, done);
          }
          done(answer);
        });
  }

  absl::StatusOr<Message> Answer(const std::string& method, const Message& request) {
    absl::StatusOr<Message> heard = absl::UnknownError("no answer");
    bool answered = false;
    CallUntilAnswered(0, method, request, [&](const absl::StatusOr<Message>& answer) {
      heard = answer;
      answered = true;
    });
    EXPECT_TRUE(world_.RunUntil([&] { return answered; }, absl::Hours(1)));
    return heard;
  }

  // By worker `worker`, of closure `closure`, adding 1 to every element.
  void StartPush(int worker, uint64_t closure, Done done) {
    const PushSpec push{.closure = closure, .worker = 100 + static_cast<uint64_t>(worker)};
    CallUntilAnswered(worker, kPush, Pack(PushOf(push, {{1, Filled(kElements, 1)}})),
                      std::move(done));
  }

  proto::PsStatsResponse Stats() {
    Envelope<proto::PsStatsRequest> request;
    request.header.set_epoch(kTestEpoch);
    return Unpack<proto::PsStatsResponse>(
               *Answer("/cohort.proto.PsService/GetStats", Pack(std::move(request))))
        ->header;
  }

  std::vector<int64_t> Value() {
    const auto answer = Answer(kPull, Pack(PullOf({1})));
    const auto response = Unpack<proto::PullResponse>(*answer);
    const Tensor value = ReadTensors(response->header.tensors(), response->payload)->at(0);
    return {value.data<int64_t>(), value.data<int64_t>() + kElements};
  }

  SimFate OnRequest(const SimMessage&) override { return {}; }
  void OnArrival(const SimMessage& message) override {
    if (message.method != kPush) return;
    pushes_in_hand_peak = std::max(pushes_in_hand_peak, ++pushes_in_hand_);
  }
  SimFate OnResponse(const SimMessage& message) override {
    if (message.method == kPush) --pushes_in_hand_;
    return {};
  }

  SimWorld& world() { return world_; }
  SimNetwork& network() { return network_; }

  size_t pushes_in_hand_peak = 0;

 private:
  static SimNetwork::Options NetworkOptions() {
    SimNetwork::Options options;
    options.unasked_bytes_max = 1000;
    options.whole_bytes_max = 20000;
    options.part_bytes = 15000;
    return options;
  }

  SimWorld world_;
  SimNetwork network_;
  StoppingExecutor executor_{world_, absl::Milliseconds(50)};
  MemoryFileSystem files_;
  size_t pushes_in_hand_ = 0;
  std::unique_ptr<Transport> ps_transport_ = network_.TransportOf("ps");
  std::vector<std::unique_ptr<Transport>> transports_;
  std::unique_ptr<PsTask> ps_;
  std::string address_;
  std::vector<std::shared_ptr<Channel>> channels_;
};

TEST(BackPressureSim, SixtyFourWorkersThatPushAtOnceAreHeldToTheBudget) {
  const uint64_t first = TestSeed(1);
  for (uint64_t seed = first; seed < first + 10; ++seed) {
    SCOPED_TRACE(Replay(seed, "BackPressureSim.*"));
    constexpr int kWorkers = 64;
    constexpr int kRounds = 3;
    CrowdedSim sim(seed, kWorkers);
    sim.network().SetFaults({.lose_request = 0.03,
                             .lose_response = 0.03,
                             .duplicate_request = 0.03,
                             .delay = 0.05,
                             .delay_max = absl::Seconds(20),
                             .cut_stream = 0.02});
    int answered = 0;
    for (int worker = 1; worker <= kWorkers; ++worker) {
      for (int round = 0; round < kRounds; ++round) {
        sim.StartPush(worker, static_cast<uint64_t>(worker * kRounds + round),
                      [&](const absl::StatusOr<Message>& answer) {
                        EXPECT_TRUE(answer.ok()) << answer.status();
                        ++answered;
                      });
      }
    }
    ASSERT_TRUE(
        sim.world().RunUntil([&] { return answered == kWorkers * kRounds; }, absl::Hours(2)));
    sim.world().RunFor(absl::Minutes(5));  // late repeats
    const proto::PsStatsResponse stats = sim.Stats();
    EXPECT_EQ(stats.applied_slices(), kWorkers * kRounds);
    EXPECT_EQ(sim.Value(), std::vector<int64_t>(CrowdedSim::kElements, kWorkers * kRounds));
    EXPECT_LE(sim.pushes_in_hand_peak, 5u);
    EXPECT_LE(stats.received().held_bytes_max(), CrowdedSim::kBudget);
    EXPECT_GE(stats.received().held_bytes_max(), 4 * CrowdedSim::kPushBytes);
    EXPECT_GT(stats.received().waits(), 50u);
    EXPECT_EQ(stats.received().held_bytes(), 0u);
    EXPECT_EQ(stats.received().waiting_bytes(), 0u);
  }
}

TEST(BackPressureSim, PullsWaitUntilAnswersHaveGone) {
  CrowdedSim sim(TestSeed(1), 64);
  int answered = 0;
  for (int worker = 1; worker <= 64; ++worker) {
    sim.CallUntilAnswered(worker, kPull, Pack(PullOf({1})),
                          [&](const absl::StatusOr<Message>& answer) {
                            ASSERT_TRUE(answer.ok()) << answer.status();
                            EXPECT_EQ(PayloadBytes(answer->payload), CrowdedSim::kPushBytes);
                            ++answered;
                          });
  }
  ASSERT_TRUE(sim.world().RunUntil([&] { return answered == 64; }, absl::Hours(1)));
  const proto::PsStatsResponse stats = sim.Stats();
  EXPECT_EQ(stats.sent().held_bytes_max(), 5 * CrowdedSim::kPushBytes);
  EXPECT_GE(stats.sent().waits(), 50u);
  EXPECT_EQ(stats.sent().held_bytes(), 0u);
}

// What waits for room was never sent: rules are asked when it has come.
class WaitingPush : public testing::Test {
 protected:
  // Worker 2's push waits behind five of worker 1 that are under way.
  void SetUp() override {
    for (uint64_t closure = 1; closure <= 5; ++closure) {
      sim_.StartPush(1, closure, [&](const absl::StatusOr<Message>& answer) {
        if (answer.ok()) ++applied_;
      });
    }
    ASSERT_TRUE(
        sim_.world().RunUntil([&] { return sim_.pushes_in_hand_peak == 1; }, absl::Minutes(1)));
    sim_.StartPush(2, 6, [&](const absl::StatusOr<Message>& answer) { late_ = answer.status(); });
  }

  void RunToTheEnd() {
    ASSERT_TRUE(sim_.world().RunUntil([&] { return !absl::IsUnknown(late_); }, absl::Minutes(10)));
    sim_.world().RunFor(absl::Minutes(1));
  }

  CrowdedSim sim_{1, 2};
  int applied_ = 0;
  absl::Status late_ = absl::UnknownError("waits");
};

TEST_F(WaitingPush, OfAFencedWorkerIsRefused) {
  proto::FenceRequest fence;
  fence.set_epoch(kTestEpoch);
  fence.add_worker_incarnations(102);
  EXPECT_TRUE(
      sim_.Answer("/cohort.proto.PsService/Fence", Message{fence.SerializeAsString(), {}}).ok());
  EXPECT_TRUE(absl::IsUnknown(late_));
  RunToTheEnd();
  EXPECT_EQ(ClassOf(late_), proto::STALE) << late_;
  EXPECT_EQ(sim_.Value(), std::vector<int64_t>(CrowdedSim::kElements, 5));
}

TEST_F(WaitingPush, OfAnOldEpochIsRefused) {
  EXPECT_TRUE(sim_.Answer("/cohort.proto.TaskService/Attach", Pack(AttachOf(kTestEpoch + 1))).ok());
  EXPECT_TRUE(absl::IsUnknown(late_));
  RunToTheEnd();
  EXPECT_EQ(ClassOf(late_), proto::STALE) << late_;
}

TEST_F(WaitingPush, IsAppliedInItsTurn) {
  RunToTheEnd();
  EXPECT_TRUE(late_.ok()) << late_;
  EXPECT_EQ(sim_.Stats().received().waits(), 1u);
  EXPECT_EQ(applied_, 5);
  EXPECT_EQ(sim_.Value(), std::vector<int64_t>(CrowdedSim::kElements, 6));
}

// Real transports and threads.
struct TransportFactory {
  const char* name;
  const char* address;
  std::unique_ptr<Transport> (*make)();
};

class BackPressure : public testing::TestWithParam<TransportFactory> {
 protected:
  static constexpr size_t kClients = 64;
  static constexpr int64_t kElements = 600000;  // too many to lie in one block
  static constexpr size_t kBytes = kElements * sizeof(int64_t);
  static constexpr size_t kBudget = size_t{16} << 20;

  void SetUp() override {
    PsTask::Options options;
    options.task = {Role::kPs, 0};
    options.listen_address = GetParam().address;
    options.incarnation = 900;
    options.receive_bytes_max = kBudget;
    options.send_bytes_max = kBudget;
    ps_ = std::make_unique<PsTask>(World{clock_, executor_, files_, transport_}, options);
    const auto address = ps_->Start();
    ASSERT_TRUE(address.ok()) << address.status();
    for (size_t i = 0; i < kClients; ++i) {
      channels_.push_back(transport_.Connect(*address, Lane::kData));
    }
    CallAll("/cohort.proto.TaskService/Attach", {Pack(AttachOf(kTestEpoch))}, AnyAnswer);
    CallAll("/cohort.proto.PsService/CreateVariables",
            {Message{CreateRequest(OneSum(kElements)).SerializeAsString(), {}}}, AnyAnswer);
  }

  using Check = std::function<bool(const Message&)>;
  static bool AnyAnswer(const Message&) { return true; }

  // All at once, by one client after another. Every one is answered, and as it must be.
  void CallAll(const std::string& method, std::vector<Message> requests, const Check& check) {
    Mutex mutex;
    CondVar changed;
    size_t left = requests.size();
    size_t good = 0;
    for (size_t i = 0; i < requests.size(); ++i) {
      channels_[i % kClients]->Start(method, std::move(requests[i]), absl::Seconds(120),
                                     [&](absl::StatusOr<Message> answer) {
                                       const bool is_good = answer.ok() && check(*answer);
                                       MutexLock lock(mutex);
                                       if (is_good) ++good;
                                       if (--left == 0) changed.NotifyAll();
                                     });
    }
    MutexLock lock(mutex);
    while (left > 0) changed.Wait(mutex);
    EXPECT_EQ(good, requests.size()) << method;
  }

  proto::PsStatsResponse Stats() {
    Envelope<proto::PsStatsRequest> request;
    request.header.set_epoch(kTestEpoch);
    proto::PsStatsResponse stats;
    CallAll("/cohort.proto.PsService/GetStats", {Pack(std::move(request))},
            [&](const Message& answer) { return stats.ParseFromString(answer.header); });
    return stats;
  }

  RealClock clock_;
  ThreadPool executor_{ThreadPool::Options{"ps-test", 3}};
  MemoryFileSystem files_;
  JoinedTransport transport_{GetParam().make()};
  std::vector<std::shared_ptr<Channel>> channels_;
  std::unique_ptr<PsTask> ps_;
};

TEST_P(BackPressure, SixtyFourClientsThatPushAndPullAtOnceAreHeldToTheBudget) {
  const Tensor ones = Filled(kElements, 1);
  std::vector<Message> pushes;
  for (uint64_t closure = 1; closure <= 2 * kClients; ++closure) {
    pushes.push_back(Pack(PushOf({.closure = closure, .worker = 100}, {{1, ones}})));
  }
  CallAll(kPush, std::move(pushes), AnyAnswer);
  const Tensor sum = Filled(kElements, 2 * kClients);
  std::vector<Message> pulls;
  for (size_t i = 0; i < kClients; ++i) {
    Envelope<proto::PullRequest> pull = PullOf({1});
    pull.answer_bytes = kBytes;
    pulls.push_back(Pack(std::move(pull)));
  }
  CallAll(kPull, std::move(pulls), [&](const Message& answer) {
    const auto values =
        ReadTensors(Unpack<proto::PullResponse>(answer)->header.tensors(), answer.payload);
    return values.ok() && SameBytes(values->at(0), sum);
  });
  const proto::PsStatsResponse stats = Stats();
  EXPECT_EQ(stats.applied_slices(), 2 * kClients);
  EXPECT_GE(stats.received().held_bytes_max(), kBytes);
  EXPECT_LE(stats.received().held_bytes_max(), kBudget);
  EXPECT_GE(stats.sent().held_bytes_max(), kBytes);
  EXPECT_LE(stats.sent().held_bytes_max(), kBudget);
}

std::vector<TransportFactory> Transports() {
  return {
      {"Shm", "cohort-test:0",
       []() -> std::unique_ptr<Transport> { return std::make_unique<LocalTransport>(); }},
      {"Unix", "cohort-test:0",
       []() -> std::unique_ptr<Transport> {
         return std::make_unique<LocalTransport>(LocalTransport::Options{kMessageBytesMax, false});
       }},
// ThreadSanitizer does not see the locks of Debian's gRPC.
#ifndef __SANITIZE_THREAD__
      {"Tcp", "127.0.0.1:0",
       []() -> std::unique_ptr<Transport> { return std::make_unique<GrpcTransport>(); }},
#endif
  };
}

INSTANTIATE_TEST_SUITE_P(All, BackPressure, testing::ValuesIn(Transports()),
                         [](const testing::TestParamInfo<TransportFactory>& info) {
                           return std::string(info.param.name);
                         });

}  // namespace
}  // namespace cohort
