#pragma once

// Groups that share memory, for tests: all ranks in one process.

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tests/unit/worker/collective/conformance/group_run.h"
#include "worker/collective/shm/shm_communicator.h"

namespace cohort {

inline constexpr size_t kShmArenaBytes = size_t{256} << 20;

inline ShmOptions ShmOptionsOf(int rank, int size, const std::string& socket) {
  ShmOptions options;
  options.rank = rank;
  options.size = size;
  options.name = {"replicas", 3};
  options.socket = socket;
  options.arena_bytes = kShmArenaBytes;
  return options;
}

// How a rank's joining ended. Thread-safe.
struct Joined {
  Event event;
  absl::Status status;
};

inline std::unique_ptr<ShmCommunicator> MakeShmRank(ShmOptions options, Joined& joined) {
  return std::make_unique<ShmCommunicator>(std::move(options), [&joined](absl::Status status) {
    joined.status = std::move(status);
    joined.event.Notify();
  });
}

class ShmGroup final : public GroupUnderTest {
 public:
  explicit ShmGroup(int size) {
    const std::string socket = NewShmSocket();
    std::vector<Joined> joined(static_cast<size_t>(size));
    for (int rank = 0; rank < size; ++rank) {
      ranks_.push_back(
          MakeShmRank(ShmOptionsOf(rank, size, socket), joined[static_cast<size_t>(rank)]));
    }
    for (Joined& one : joined) {
      EXPECT_TRUE(waiter_.Wait(one.event, absl::Minutes(1)));
      EXPECT_TRUE(one.status.ok()) << one.status;
    }
  }
  Communicator& Of(int rank) override { return *ranks_[static_cast<size_t>(rank)]; }
  Waiter& waiter() override { return waiter_; }

 private:
  BlockingWaiter waiter_;
  std::vector<std::unique_ptr<ShmCommunicator>> ranks_;
};

}  // namespace cohort
