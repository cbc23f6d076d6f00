#pragma once

// The state of the fake's ranks. Internal to it; all of it is guarded by the mutex of FakeNccl.

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <thread>
#include <utility>
#include <vector>

#include "tests/support/fake_nccl/fake_nccl.h"
#include "worker/collective/nccl/nccl_pieces.h"

namespace cohort {

inline constexpr int32_t kFakeLocalError = 7004;  // of open_local and reduce_local

struct FakeOperation {
  NcclStep::Kind kind = NcclStep::Kind::kAllReduce;
  const std::byte* send = nullptr;
  std::byte* receive = nullptr;
  NcclRun run;
  NcclReduction reduction = NcclReduction::kSum;
  int peer = 0;
  bool done = false;
};

struct FakeGroup {
  std::vector<std::shared_ptr<FakeOperation>> operations;
};

// One communicator of all ranks.
struct FakeComm {
  int size = 0;
  std::set<int> joined;
  bool aborted = false;  // by a rank: nothing that is not complete completes any more
  // By number, the operation of each rank that has come.
  std::map<uint64_t, std::map<int, std::shared_ptr<FakeOperation>>> meetings;
  using Queue = std::deque<std::shared_ptr<FakeOperation>>;
  std::map<std::pair<int, int>, std::pair<Queue, Queue>> pairs;  // sends and receives
};

struct FakeContext {
  FakeNccl* fake = nullptr;
  int device = 0;
  int rank = 0;
  std::shared_ptr<FakeComm> comm;  // shared by its ranks
  uint64_t collectives = 0;
  bool aborted = false;
  bool abort_hangs = false;
  bool copy_fails = false;
  bool in_group = false;
  FakeGroup open;      // between group_start and group_end
  bool posts = false;  // the group that has ended is not on the stream yet
  int asks_left = 0;
  int32_t comm_error = 0;
  int32_t stream_error = 0;
  std::deque<std::function<int32_t()>> tasks;
  bool running = false;
  bool stopping = false;
  std::thread stream;
};

inline FakeContext& FakeOf(NcclContext* context) {
  return *reinterpret_cast<FakeContext*>(context);
}

inline uint64_t FakeBytes(NcclRun run) {
  static constexpr uint64_t kBytes[] = {1, 4, 8, 4, 8};
  return run.count * kBytes[static_cast<size_t>(run.type)];
}

}  // namespace cohort
