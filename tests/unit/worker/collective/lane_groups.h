#pragma once

// Groups of LaneCommunicators for tests: all ranks in one process, over a transport of choice.

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "common/base/real_clock.h"
#include "common/base/thread_pool.h"
#include "tests/support/network/sim_transport.h"
#include "tests/support/world/sim_world.h"
#include "tests/unit/worker/collective/conformance/group_run.h"
#include "worker/collective/lanes/lane_communicator.h"
#include "worker/collective/lanes/wire_lanes.h"

namespace cohort {

// Runs the simulation until the event has happened. Lives on the thread of the test.
class SimWaiter final : public Waiter {
 public:
  explicit SimWaiter(SimWorld& world) : world_(world) {}
  bool Wait(const Event& event, absl::Duration timeout) override {
    return world_.RunUntil([&event] { return event.HasHappened(); }, timeout);
  }

 private:
  SimWorld& world_;
};

// Lanes that do what others do, for those that do one thing otherwise. Thread-safe.
class PassingLinks : public PeerLinks {
 public:
  explicit PassingLinks(std::unique_ptr<PeerLinks> links) : links_(std::move(links)) {}

  void Send(int to, CollectiveFrame frame, Consumed consumed) override {
    links_->Send(to, std::move(frame), std::move(consumed));
  }
  void CancelFrames() override { links_->CancelFrames(); }
  void SendAbort(int to, const AbortCause& cause, absl::Duration wait, CauseReply reply) override {
    links_->SendAbort(to, cause, wait, std::move(reply));
  }
  void Watch(int rank, LeftReply left) override { links_->Watch(rank, std::move(left)); }
  void AskProgress(int rank, absl::Duration wait, ProgressReply reply) override {
    links_->AskProgress(rank, wait, std::move(reply));
  }

 private:
  const std::unique_ptr<PeerLinks> links_;
};

// Wraps the lanes of a rank, to disturb them.
using LanesWrapper =
    std::function<std::unique_ptr<PeerLinks>(int rank, std::unique_ptr<PeerLinks>)>;

// So many ranks on each host, the last perhaps fewer.
HostLayout HostsOf(int size, int ranks_on_host);

struct LaneGroupSpec {
  int size = 1;
  uint64_t generation = 1;
  HostLayout hosts;
  LanesWrapper wrap;  // may be empty
  absl::Duration stall_after = absl::InfiniteDuration();
};

// What the ranks need: clock, executor and a transport for each. Belongs to the thread of the test.
class LaneWorld {
 public:
  virtual ~LaneWorld() = default;
  virtual Clock& clock() = 0;
  virtual Executor& executor() = 0;
  virtual Waiter& waiter() = 0;
  virtual Transport& TransportOf(int rank) = 0;
  virtual std::string ListenAddress(int rank) = 0;
  // Runs what is under way; what is not ended in a minute never ends.
  virtual void Rest() {}
};

// The ranks of one process each, listening. Belongs to the thread of the test.
class LaneRanks final : public GroupUnderTest {
 public:
  // The world lives as long.
  LaneRanks(std::shared_ptr<LaneWorld> world, const LaneGroupSpec& spec);
  ~LaneRanks() override;

  Communicator& Of(int rank) override { return *ranks_[static_cast<size_t>(rank)]; }
  Waiter& waiter() override { return world_->waiter(); }
  Executor& executor() { return world_->executor(); }
  LaneCommunicator& Lane(int rank) { return *ranks_[static_cast<size_t>(rank)]; }
  FrameRouter& Router(int rank) { return *routers_[static_cast<size_t>(rank)]; }
  const std::vector<std::string>& addresses() const { return addresses_; }

  // Makes all communicators anew, of another generation.
  void Reform(const LaneGroupSpec& spec);
  // Ends the rank's communicator.
  void Leave(int rank) { ranks_[static_cast<size_t>(rank)].reset(); }
  void Join(int rank, const LaneGroupSpec& spec);

 private:
  const std::shared_ptr<LaneWorld> world_;
  std::vector<std::shared_ptr<FrameRouter>> routers_;
  std::vector<std::unique_ptr<Server>> servers_;
  std::vector<std::string> addresses_;
  std::vector<std::unique_ptr<LaneCommunicator>> ranks_;
};

// One thread and a seed; each rank on a host of its own, "host0" and on. Belongs to the test's
// thread.
class SimLaneWorld final : public LaneWorld {
 public:
  SimLaneWorld(uint64_t seed, int size);
  Clock& clock() override { return world_; }
  Executor& executor() override { return world_; }
  Waiter& waiter() override { return waiter_; }
  Transport& TransportOf(int rank) override { return *transports_[static_cast<size_t>(rank)]; }
  std::string ListenAddress(int rank) override;
  void Rest() override;
  SimWorld& world() { return world_; }
  SimNetwork& network() { return network_; }

 private:
  SimWorld world_;
  SimNetwork network_;
  std::vector<std::unique_ptr<Transport>> transports_;
  SimWaiter waiter_{world_};
};

// Real threads; one transport for all ranks.
class ThreadLaneWorld final : public LaneWorld {
 public:
  using MakeTransport = std::function<std::unique_ptr<Transport>(Clock&, Executor&)>;
  // `address` is where a rank listens: "host:0".
  ThreadLaneWorld(const MakeTransport& make, std::string address);
  ~ThreadLaneWorld() override;
  Clock& clock() override { return clock_; }
  Executor& executor() override { return *pool_; }
  Waiter& waiter() override { return waiter_; }
  Transport& TransportOf(int rank) override { return *transport_; }
  std::string ListenAddress(int rank) override { return address_; }

 private:
  RealClock clock_;
  std::unique_ptr<ThreadPool> pool_;
  BlockingWaiter waiter_;
  const std::string address_;
  std::unique_ptr<Transport> transport_;
};

}  // namespace cohort
