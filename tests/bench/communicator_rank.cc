#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/event.h"
#include "common/base/status.h"
#include "common/wire/route/real_world.h"
#include "tests/bench/rank_work.h"
#include "worker/collective/lanes/lane_communicator.h"
#include "worker/collective/lanes/wire_lanes.h"
#include "worker/collective/shm/shm_communicator.h"

namespace cohort::bench {

namespace {

// What a communicator does, each call started when the one before is done. Thread-compatible.
class CommunicatorWork : public RankWork {
 public:
  float* Prepare(size_t count) override {
    buffer_ = nullptr;
    auto buffer = communicator().Allocate(count * sizeof(float));
    if (!buffer.ok()) return nullptr;
    buffer_ = *std::move(buffer);
    call_.op = CollectiveOp::kAllReduce;
    call_.count = static_cast<int64_t>(count);
    call_.output = absl::MakeSpan(buffer_->data(), buffer_->size());
    call_.input = call_.output;
    return reinterpret_cast<float*>(buffer_->data());
  }

  bool AllReduce(int times) override { return RunCalls(call_, times); }
  bool Barrier() override { return RunCalls(CollectiveCall{}, 1); }

 protected:
  explicit CommunicatorWork(CollectiveAlgorithm algorithm) { call_.algorithm = algorithm; }
  virtual Communicator& communicator() = 0;

 private:
  struct Chain {
    int left = 0;
    Event ended;
    absl::Status status;
  };

  void StartNext(const CollectiveCall& call, Chain& chain) {
    communicator().Start(call, [this, &call, &chain](absl::Status status) {
      if (status.ok() && --chain.left > 0) return StartNext(call, chain);
      chain.status = std::move(status);
      chain.ended.Notify();
    });
  }

  bool RunCalls(const CollectiveCall& call, int times) {
    Chain chain;
    chain.left = times;
    StartNext(call, chain);
    BlockingWaiter().Wait(chain.ended, absl::InfiniteDuration());
    if (!chain.status.ok()) std::fprintf(stderr, "%s\n", chain.status.ToString().c_str());
    return chain.status.ok();
  }

  std::shared_ptr<Buffer> buffer_;  // shared with nobody; what Allocate gives
  CollectiveCall call_;
};

// Thread-compatible.
class ShmWork final : public CommunicatorWork {
 public:
  explicit ShmWork(const RankPlace& place)
      : CommunicatorWork(CollectiveAlgorithm::kAuto),
        communicator_(OptionsOf(place), [this](absl::Status result) {
          status_ = std::move(result);
          joined_.Notify();
        }) {}
  absl::Status Join() {
    BlockingWaiter().Wait(joined_, absl::InfiniteDuration());
    return status_;
  }

 private:
  static ShmOptions OptionsOf(const RankPlace& place) {
    ShmOptions options;
    options.rank = place.rank;
    options.size = place.ranks;
    options.socket = place.group;
    options.join_timeout = absl::Seconds(60);
    return options;
  }
  Communicator& communicator() override { return communicator_; }

  Event joined_;
  absl::Status status_;
  ShmCommunicator communicator_;
};

// Over the network. Thread-compatible.
class LaneWork final : public CommunicatorWork {
 public:
  static absl::StatusOr<std::unique_ptr<RankWork>> Make(const RankPlace& place,
                                                        CollectiveAlgorithm algorithm,
                                                        TransportKind transport) {
    std::unique_ptr<LaneWork> work(new LaneWork(algorithm, transport));
    const World world = work->world_.world();
    ASSIGN_OR_RETURN(work->server_,
                     world.transport.Listen("127.0.0.1:0", {work->router_->MakeService()}));
    RETURN_IF_ERROR(LeaveText(place, absl::StrCat(place.rank), work->server_->address()));
    WireLanesOptions lanes;
    lanes.group = {"bench", 1};
    lanes.rank = place.rank;
    for (int rank = 0; rank < place.ranks; ++rank) {
      ASSIGN_OR_RETURN(std::string address, AwaitText(place, absl::StrCat(rank)));
      lanes.addresses.push_back(std::move(address));
    }
    LaneGroupOptions options;
    options.name = lanes.group;
    options.rank = place.rank;
    options.size = place.ranks;
    for (int rank = 0; algorithm == CollectiveAlgorithm::kHierarchical && rank < place.ranks;
         ++rank) {
      options.hosts.host_of.push_back(rank / kRanksOfHost);
    }
    work->communicator_ = std::make_unique<LaneCommunicator>(
        world.clock, world.executor, work->router_, MakeWireLanes(world.transport, lanes), options);
    return work;
  }

 private:
  LaneWork(CollectiveAlgorithm algorithm, TransportKind transport)
      : CommunicatorWork(algorithm), world_(2, transport) {}
  Communicator& communicator() override { return *communicator_; }

  RealWorld world_;
  const std::shared_ptr<FrameRouter> router_ = std::make_shared<FrameRouter>();
  std::unique_ptr<Server> server_;
  std::unique_ptr<LaneCommunicator> communicator_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<RankWork>> MakeSharedMemory(const RankPlace& place) {
  auto work = std::make_unique<ShmWork>(place);
  RETURN_IF_ERROR(work->Join());
  return work;
}

absl::StatusOr<std::unique_ptr<RankWork>> MakeLanes(const RankPlace& place,
                                                    CollectiveAlgorithm algorithm,
                                                    TransportKind transport) {
  return LaneWork::Make(place, algorithm, transport);
}

}  // namespace cohort::bench
