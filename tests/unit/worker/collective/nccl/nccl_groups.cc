#include "tests/unit/worker/collective/nccl/nccl_groups.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <utility>

#include "common/base/check.h"
#include "common/wire/inprocess_transport.h"

namespace cohort {

namespace {

std::unique_ptr<Transport> InProcess(Clock& clock, Executor& executor) {
  return std::make_unique<InProcessTransport>(clock, executor);
}

}  // namespace

absl::Time LeapingClock::Now() const {
  MutexLock lock(mutex_);
  return real_.Now() + ahead_;
}

TimerId LeapingClock::CallAt(absl::Time when, Task task) {
  MutexLock lock(mutex_);
  return real_.CallAt(when - ahead_, std::move(task));
}

void LeapingClock::Leap(absl::Duration by) {
  MutexLock lock(mutex_);
  ahead_ += by;
}

NcclRanks::NcclRanks(std::vector<absl::StatusOr<const NcclTable*>> tables,
                     const NcclGroupSpec& spec)
    : world_(InProcess, "local:0") {
  std::vector<std::string> addresses;
  for (int rank = 0; rank < spec.size; ++rank) {
    routers_.push_back(std::make_shared<FrameRouter>());
    auto server = world_.TransportOf(rank).Listen(world_.ListenAddress(rank),
                                                  {routers_.back()->MakeService()});
    COHORT_CHECK(server.ok(), "a test listens");
    addresses.push_back((*server)->address());
    servers_.push_back(*std::move(server));
  }
  for (int rank = 0; rank < spec.size; ++rank) {
    const auto index = static_cast<size_t>(rank);
    NcclOptions options;
    options.group.name = {"workers", 1};
    options.group.rank = rank;
    options.group.size = spec.size;
    options.group.stall_after = spec.stall_after;
    options.device = spec.device_of ? spec.device_of(rank) : rank;
    options.join_timeout = spec.join_timeout;
    options.abort_wait = spec.abort_wait;
    options.piece_bytes = spec.piece_bytes;
    auto links = MakeWireLanes(world_.TransportOf(rank), {options.group.name, rank, addresses});
    auto control = std::make_unique<LaneCommunicator>(
        world_.clock(), world_.executor(), routers_[index], std::move(links), options.group);
    joins_.push_back(std::make_unique<Join>());
    ranks_.push_back(std::make_unique<NcclCommunicator>(
        spec.clock != nullptr ? *spec.clock : world_.clock(), world_.executor(), tables[index],
        std::move(control), std::move(options), [join = joins_.back().get()](absl::Status status) {
          join->status = std::move(status);
          join->done.Notify();
        }));
  }
}

// The servers wait for handlers, which the ranks' ends answer.
NcclRanks::~NcclRanks() {
  ranks_.clear();
  servers_.clear();
  for (const auto& join : joins_) {
    EXPECT_TRUE(world_.waiter().Wait(join->done, absl::Minutes(1))) << "joining does not end";
  }
}

absl::Status NcclRanks::Joined(int rank) {
  const Join& join = *joins_[static_cast<size_t>(rank)];
  COHORT_CHECK(world_.waiter().Wait(join.done, absl::Minutes(1)), "joining ends");
  return join.status;
}

FakeNcclRanks::FakeNcclRanks(const NcclGroupSpec& spec)
    : fake_(spec.size),
      ranks_(std::make_unique<NcclRanks>(std::vector<absl::StatusOr<const NcclTable*>>(
                                             static_cast<size_t>(spec.size), &fake_.table()),
                                         spec)) {}

FakeNcclRanks::~FakeNcclRanks() {
  ranks_.reset();
  EXPECT_THAT(fake_.misuse(), testing::IsEmpty());
  const FakeNccl::Counters counters = fake_.counters();
  EXPECT_EQ(counters.contexts, 0);
  EXPECT_EQ(counters.memories, 0);
}

}  // namespace cohort
