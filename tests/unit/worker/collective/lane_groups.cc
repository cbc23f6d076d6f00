#include "tests/unit/worker/collective/lane_groups.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "common/wire/route/joined_transport.h"

namespace cohort {

namespace {

SimNetwork::Options QuickDetection() {
  SimNetwork::Options options;
  options.detection_max = absl::Milliseconds(100);
  return options;
}

}  // namespace

HostLayout HostsOf(int size, int ranks_on_host) {
  HostLayout hosts;
  for (int rank = 0; rank < size; ++rank) hosts.host_of.push_back(rank / ranks_on_host);
  return hosts;
}

LaneRanks::LaneRanks(std::shared_ptr<LaneWorld> world, const LaneGroupSpec& spec)
    : world_(std::move(world)) {
  for (int rank = 0; rank < spec.size; ++rank) {
    routers_.push_back(std::make_shared<FrameRouter>());
    auto server = world_->TransportOf(rank).Listen(world_->ListenAddress(rank),
                                                   {routers_.back()->MakeService()});
    COHORT_CHECK(server.ok(), "a test listens");
    addresses_.push_back((*server)->address());
    servers_.push_back(*std::move(server));
  }
  ranks_.resize(static_cast<size_t>(spec.size));
  Reform(spec);
}

// The servers wait for handlers, which the ranks' ends answer.
LaneRanks::~LaneRanks() {
  ranks_.clear();
  servers_.clear();
  // A group lives until its operations retire, which takes the answers to their last frames.
  world_->Rest();
}

void LaneRanks::Reform(const LaneGroupSpec& spec) {
  for (auto& rank : ranks_) rank.reset();
  for (int rank = 0; rank < spec.size; ++rank) Join(rank, spec);
}

void LaneRanks::Join(int rank, const LaneGroupSpec& spec) {
  LaneGroupOptions options;
  options.name = {"workers", spec.generation};
  options.rank = rank;
  options.size = spec.size;
  options.hosts = spec.hosts;
  options.stall_after = spec.stall_after;
  for (int i = 0; i < spec.size; ++i) {
    proto::TaskRef task;
    task.set_role("worker");
    task.set_index(i);
    options.tasks.push_back(task);
  }
  const std::vector<std::string> addresses(addresses_.begin(), addresses_.begin() + spec.size);
  auto links = MakeWireLanes(world_->TransportOf(rank), {options.name, rank, addresses});
  if (spec.wrap) links = spec.wrap(rank, std::move(links));
  const auto index = static_cast<size_t>(rank);
  ranks_[index] = std::make_unique<LaneCommunicator>(world_->clock(), world_->executor(),
                                                     routers_[index], std::move(links), options);
}

SimLaneWorld::SimLaneWorld(uint64_t seed, int size)
    : world_(seed), network_(world_, QuickDetection()) {
  for (int rank = 0; rank < size; ++rank) {
    transports_.push_back(network_.TransportOf(absl::StrCat("host", rank)));
  }
}

void SimLaneWorld::Rest() {
  world_.RunUntil([] { return false; }, absl::Minutes(1));
}

std::string SimLaneWorld::ListenAddress(int rank) { return absl::StrCat("host", rank, ":0"); }

ThreadLaneWorld::ThreadLaneWorld(const MakeTransport& make, std::string address)
    : pool_(std::make_unique<ThreadPool>(ThreadPool::Options{"ranks", 3})),
      address_(std::move(address)),
      transport_(std::make_unique<JoinedTransport>(make(clock_, *pool_))) {}

// Calls and timers post to the pool, so they end first; what is queued there runs at its end.
ThreadLaneWorld::~ThreadLaneWorld() {
  clock_.Stop();
  transport_.reset();
  pool_.reset();
}

}  // namespace cohort
