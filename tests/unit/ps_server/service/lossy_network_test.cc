// A parameter server on a simulated network that loses, repeats, delays and reorders messages.
// Every call is made again until it is answered, as the coordinator and the workers do. The network
// also checks that no payload changes while it travels, so a push that wrote into memory that a
// pull has sent would be found.

#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "common/checkpoint/bundle.h"
#include "common/wire/error_detail.h"
#include "tests/support/network/sim_transport.h"
#include "tests/support/world/memory_file_system.h"
#include "tests/support/world/sim_world.h"
#include "tests/unit/ps_server/ps_test_support.h"

namespace cohort {
namespace {

constexpr uint64_t kClosures = 40;
constexpr int64_t kElements = 300;

// A ps and two workers, of which each closure uses one at random for each attempt.
class LossyRun {
 public:
  explicit LossyRun(uint64_t seed, SimNetwork::Options network = {}, double cut_stream = 0)
      : world_(seed), network_(world_, network) {
    PsTask::Options options;
    options.task = {Role::kPs, 0};
    options.listen_address = "ps:0";
    options.incarnation = 900;
    ps_ = std::make_unique<PsTask>(World{world_, world_, files_, *ps_transport_}, options);
    const absl::StatusOr<std::string> address = ps_->Start();
    COHORT_CHECK(address.ok(), "a free address");
    for (const auto& transport : worker_transports_) {
      channels_.push_back(transport->Connect(*address, Lane::kData));
    }
    network_.SetFaults({.lose_request = 0.2,
                        .lose_response = 0.2,
                        .duplicate_request = 0.2,
                        .delay = 0.2,
                        .delay_max = absl::Seconds(20),
                        .cut_stream = cut_stream});
  }

  // Calls until an answer is heard. `build` makes the request of an attempt by worker 0 or 1.
  using Build = std::function<Message(int worker)>;
  using Done = std::function<void(const absl::StatusOr<Message>&)>;
  void CallUntilAnswered(const std::string& method, Build build, Done done) {
    const int worker = static_cast<int>(world_.rng().Below(2));
    Channel& channel = *channels_[static_cast<size_t>(worker)];
    Message request = build(worker);
    auto call = channel.Start(
        method, std::move(request), absl::Seconds(10), [=, this](absl::StatusOr<Message> answer) {
          if (absl::IsUnavailable(answer.status()) || absl::IsDeadlineExceeded(answer.status())) {
            return CallUntilAnswered(method, build, done);
          }
          done(answer);
        });
  }

  absl::StatusOr<Message> Answer(const std::string& method, const Message& request) {
    absl::StatusOr<Message> heard = absl::UnknownError("no answer");
    bool answered = false;
    CallUntilAnswered(
        method, [&](int) { return request; },
        [&](const absl::StatusOr<Message>& answer) {
          heard = answer;
          answered = true;
        });
    COHORT_CHECK(world_.RunUntil([&] { return answered; }, absl::Hours(10)), "an answer comes");
    return heard;
  }

  SimWorld& world() { return world_; }
  FileSystem& files() { return files_; }

 private:
  SimWorld world_;
  SimNetwork network_;
  MemoryFileSystem files_;
  const std::unique_ptr<Transport> ps_transport_ = network_.TransportOf("ps");
  const std::vector<std::unique_ptr<Transport>> worker_transports_ = [this] {
    std::vector<std::unique_ptr<Transport>> transports;
    transports.push_back(network_.TransportOf("worker:0"));
    transports.push_back(network_.TransportOf("worker:1"));
    return transports;
  }();
  std::unique_ptr<PsTask> ps_;
  std::vector<std::shared_ptr<Channel>> channels_;
};

template <typename Request>
Message Header(Request request) {
  request.set_epoch(kTestEpoch);
  return Pack(Envelope<Request>{std::move(request), {}});
}

void AttachAndCreate(LossyRun& run) {
  proto::AttachRequest attach;
  attach.set_coordinator_incarnation(kTestCoordinator);
  ASSERT_TRUE(run.Answer("/cohort.proto.TaskService/Attach", Header(attach)).ok());
  const auto layouts =
      LayOut({{"sum", DType::kInt64, Shape{kElements}, Rule("assign_add", {}), "zeros"},
              {"count", DType::kInt32, Shape{}, Rule("assign_add", {}), "zeros"}},
             1);
  ASSERT_TRUE(
      run.Answer("/cohort.proto.PsService/CreateVariables", Header(CreateRequest(layouts))).ok());
}

// All closures at once: each pulls, then pushes its own number to every element of the sum.
void PushAll(LossyRun& run) {
  uint64_t done = 0;
  for (uint64_t closure = 1; closure <= kClosures; ++closure) {
    const auto push = [closure](int worker) {
      Tensor gradient(DType::kInt64, Shape{kElements});
      std::fill_n(gradient.mutable_data<int64_t>(), kElements, static_cast<int64_t>(closure));
      const PushSpec spec = {.closure = closure, .worker = 100 + static_cast<uint64_t>(worker)};
      return Pack(PushOf(spec, {{1, gradient}, {2, Tensor::Scalar<int32_t>(1)}}));
    };
    run.CallUntilAnswered(
        "/cohort.proto.PsService/Pull",
        [](int) {
          return Pack(PullOf({1, 2}));
        },
        [&run, &done, push](const absl::StatusOr<Message>& pulled) {
          ASSERT_TRUE(pulled.ok()) << pulled.status();
          run.CallUntilAnswered("/cohort.proto.PsService/Push", push,
                                [&done](const absl::StatusOr<Message>& answer) {
                                  EXPECT_TRUE(answer.ok()) << answer.status();
                                  ++done;
                                });
        });
  }
  ASSERT_TRUE(run.world().RunUntil([&] { return done == kClosures; }, absl::Hours(10)));
}

void ExpectEachClosureOnce(LossyRun& run) {
  const absl::StatusOr<Message> answer =
      run.Answer("/cohort.proto.PsService/Pull", Pack(PullOf({1, 2})));
  ASSERT_TRUE(answer.ok()) << answer.status();
  const auto pulled = Unpack<proto::PullResponse>(*answer);
  const std::vector<Tensor> values = *ReadTensors(pulled->header.tensors(), pulled->payload);
  for (const int64_t value : values[0].span<int64_t>()) {
    ASSERT_EQ(value, static_cast<int64_t>(kClosures * (kClosures + 1) / 2));
  }
  EXPECT_EQ(values[1].span<int32_t>()[0], static_cast<int32_t>(kClosures));
  EXPECT_EQ(pulled->header.versions(0), kClosures);
}

TEST(LossyNetwork, EveryClosureIsAppliedOnceHoweverOftenItIsPushed) {
  const uint64_t first = TestSeed(1);
  for (uint64_t seed = first; seed < first + 20; ++seed) {
    SCOPED_TRACE(Replay(seed, "LossyNetwork.*"));
    LossyRun run(seed);
    AttachAndCreate(run);
    PushAll(run);
    ExpectEachClosureOnce(run);
  }
}

// Values and gradients go in ten parts, and streams are cut between any two of them, each way.
TEST(LossyNetwork, AStreamThatIsCutAfterAnyPartChangesNothing) {
  const uint64_t first = TestSeed(1);
  SimNetwork::Options options;
  options.whole_bytes_max = 500;
  options.part_bytes = 250;
  std::map<std::string, std::map<std::string, int>> cuts;  // request or response, after what
  for (uint64_t seed = first; seed < first + 20; ++seed) {
    SCOPED_TRACE(Replay(seed, "LossyNetwork.*"));
    LossyRun run(seed, options, 0.08);
    run.world().SetTraceSink([&](absl::string_view event) {
      const std::vector<std::string> words = absl::StrSplit(event, ' ');
      if (words[1] == "cut") ++cuts[absl::StrCat(words[2], words[3])][words[5]];
    });
    AttachAndCreate(run);
    PushAll(run);
    ExpectEachClosureOnce(run);
  }
  EXPECT_EQ(cuts["request/cohort.proto.PsService/Push"].size(), 9u);
  EXPECT_EQ(cuts["response/cohort.proto.PsService/Pull"].size(), 9u);
}

TEST(LossyNetwork, FencingSavingAndRestoringMayBeAskedForAgain) {
  const uint64_t first = TestSeed(1);
  for (uint64_t seed = first; seed < first + 20; ++seed) {
    SCOPED_TRACE(Replay(seed, "LossyNetwork.*"));
    LossyRun run(seed);
    AttachAndCreate(run);
    PushAll(run);
    proto::HoldShardRequest hold = HoldRequest("/model");
    hold.set_save(1);
    const auto held = run.Answer("/cohort.proto.PsService/HoldShard", Header(hold));
    ASSERT_TRUE(held.ok()) << held.status();
    proto::WriteShardRequest write;
    write.set_save(1);
    const auto saved = run.Answer("/cohort.proto.PsService/WriteShard", Header(write));
    ASSERT_TRUE(saved.ok()) << saved.status();
    const auto shard = Unpack<proto::WriteShardResponse>(*saved);
    const std::vector<proto::SavedSlice> slices(shard->header.slices().begin(),
                                                shard->header.slices().end());
    // A repeat of the call may still be on its way, and is refused once the index is there.
    run.world().RunFor(absl::Minutes(2));
    ASSERT_TRUE(WriteIndex(run.files(), "/model", 1, slices).ok());
    const Tensor zeros = Tensor::Zeros(DType::kInt64, Shape{kElements});
    const auto assigned =
        run.Answer("/cohort.proto.PsService/Assign", Pack(AssignOf({{1, zeros}})));
    ASSERT_TRUE(assigned.ok()) << assigned.status();
    run.world().RunFor(absl::Minutes(2));  // a late repeat of the assignment
    proto::RestoreShardRequest restore;
    restore.set_prefix("/model");
    const auto restored = run.Answer("/cohort.proto.PsService/RestoreShard", Header(restore));
    ASSERT_TRUE(restored.ok()) << restored.status();
    proto::FenceRequest fence;
    fence.add_worker_incarnations(100);
    ASSERT_TRUE(run.Answer("/cohort.proto.PsService/Fence", Header(fence)).ok());
    ExpectEachClosureOnce(run);
  }
}

// A coordinator that has died pins no memory.
TEST(LossyNetwork, WhatNobodyAsksForInTwoMinutesIsHeldNoLonger) {
  LossyRun run(TestSeed(1));
  AttachAndCreate(run);
  proto::HoldShardRequest hold = HoldRequest("/model");
  hold.set_save(1);
  ASSERT_TRUE(run.Answer("/cohort.proto.PsService/HoldShard", Header(hold)).ok());
  proto::ReadShardRequest read;
  read.set_save(1);
  read.set_max_bytes(1);
  const Message request = Header(read);
  const std::string method = "/cohort.proto.PsService/ReadShard";
  for (int i = 0; i < 3; ++i) {
    run.world().RunFor(absl::Seconds(50));
    const auto used = run.Answer(method, request);
    ASSERT_TRUE(used.ok()) << "it was asked for in time: " << used.status();
  }
  run.world().RunFor(absl::Minutes(5));  // repeats of the calls come late
  EXPECT_EQ(ClassOf(run.Answer(method, request).status()), proto::STALE);
}

TEST(LossyNetwork, ASeedIsOneSchedule) {
  const auto hash_of = [](uint64_t seed) {
    LossyRun run(seed);
    AttachAndCreate(run);
    PushAll(run);
    return run.world().trace_hash();
  };
  EXPECT_EQ(hash_of(7), hash_of(7));
  EXPECT_NE(hash_of(7), hash_of(8));
}

}  // namespace
}  // namespace cohort
