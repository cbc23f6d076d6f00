#pragma once

// Groups of NcclCommunicators for tests: all ranks in one process, their control groups over the
// in-process transport.

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "tests/support/fake_nccl/fake_nccl.h"
#include "tests/unit/worker/collective/lane_groups.h"
#include "worker/collective/nccl/nccl_communicator.h"

namespace cohort {

// The real time, and what a test adds to it. Thread-safe.
class LeapingClock final : public Clock {
 public:
  absl::Time Now() const override;
  TimerId CallAt(absl::Time when, Task task) override;
  bool Cancel(TimerId timer) override { return real_.Cancel(timer); }
  void Leap(absl::Duration by);

 private:
  RealClock real_;
  mutable Mutex mutex_;
  absl::Duration ahead_ ABSL_GUARDED_BY(mutex_);
};

struct NcclGroupSpec {
  int size = 1;
  size_t piece_bytes = 8192;  // small, so that calls take several pieces
  absl::Duration join_timeout = absl::Minutes(1);
  absl::Duration stall_after = absl::InfiniteDuration();
  absl::Duration abort_wait = absl::Minutes(1);
  std::function<int(int rank)> device_of = {};  // empty: the rank
  Clock* clock = nullptr;  // of the communicators, not of their control groups; null: the same
};

// Belongs to the thread of the test.
class NcclRanks : public GroupUnderTest {
 public:
  // Tables by rank; they live as long.
  NcclRanks(std::vector<absl::StatusOr<const NcclTable*>> tables, const NcclGroupSpec& spec);
  ~NcclRanks() override;

  Communicator& Of(int rank) override { return *ranks_[static_cast<size_t>(rank)]; }
  Waiter& waiter() override { return world_.waiter(); }
  NcclCommunicator& Rank(int rank) { return *ranks_[static_cast<size_t>(rank)]; }
  // How joining ended, which is waited for.
  absl::Status Joined(int rank);
  void End(int rank) { ranks_[static_cast<size_t>(rank)].reset(); }
  void EndAll() { ranks_.clear(); }

 private:
  struct Join {
    Event done;
    absl::Status status;
  };
  ThreadLaneWorld world_;
  std::vector<std::unique_ptr<Join>> joins_;
  std::vector<std::shared_ptr<FrameRouter>> routers_;
  std::vector<std::unique_ptr<Server>> servers_;
  std::vector<std::unique_ptr<NcclCommunicator>> ranks_;
};

// Over a fake of its own, which must have seen no misuse in the end, and got all back.
class FakeNcclRanks final : public GroupUnderTest {
 public:
  explicit FakeNcclRanks(const NcclGroupSpec& spec);
  ~FakeNcclRanks() override;
  Communicator& Of(int rank) override { return ranks_->Of(rank); }
  Waiter& waiter() override { return ranks_->waiter(); }
  FakeNccl& fake() { return fake_; }
  NcclRanks& ranks() { return *ranks_; }

 private:
  FakeNccl fake_;
  std::unique_ptr<NcclRanks> ranks_;
};

}  // namespace cohort
