#pragma once

// One operation of a whole group under test: every rank's memory, its call and how it ended.

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "common/base/event.h"
#include "worker/collective/communicator.h"

namespace cohort {

// What inputs are drawn from: all digits, so that another order of a sum has other bits; or numbers
// of which every order gives the same.
enum class Draw { kAllDigits, kExactInAnyOrder };

// All ranks of one group, made for a test. Belongs to the thread of the test.
class GroupUnderTest {
 public:
  virtual ~GroupUnderTest() = default;
  virtual Draw draw() const { return Draw::kAllDigits; }
  virtual Communicator& Of(int rank) = 0;
  // Runs or waits for what the communicators need to go on.
  virtual Waiter& waiter() = 0;
};

struct Implementation {
  std::string name;
  std::function<std::unique_ptr<GroupUnderTest>(int size)> make;
  // Those to ask for; an operation that has no such form is asked for by kAuto once.
  std::vector<CollectiveAlgorithm> algorithms = {CollectiveAlgorithm::kAuto};
  bool many_ranks = true;  // up to 8; else up to 4, where ranks are costly
  int ranks_min = 1;       // that there can be
  int ranks_max = 8;
  // The number of a group's first call.
  uint64_t first_call = 0;
  // Of zeros of both signs min and max give what the tree gives; else some zero.
  bool zeros_of_the_tree = true;
};

// Whether the algorithm is one of this operation's.
bool Offers(CollectiveOp op, CollectiveAlgorithm algorithm);

enum class Place { kApart, kInPlace };

// Memory with a border on both sides, to see what is written that should not be. From Allocate of
// the communicator or from the heap. Thread-compatible.
class GuardedMemory {
 public:
  GuardedMemory(Communicator& communicator, size_t bytes, bool allocate);
  absl::Span<std::byte> span() { return {buffer_->data() + kGuard, bytes_}; }
  std::vector<std::byte> Content() const;
  bool BordersHold() const;

 private:
  static constexpr size_t kGuard = 64;
  std::shared_ptr<Buffer> buffer_;
  size_t bytes_;
};

struct GroupResult {
  std::vector<absl::Status> statuses;
  std::vector<std::vector<std::byte>> outputs;
  std::vector<std::vector<std::byte>> inputs;  // as they are after it
  bool borders_hold = true;
};

// One call of each rank. Belongs to the thread of the test.
class GroupRun {
 public:
  // `calls` without memory; inputs by rank. `turn` varies where memory comes from.
  GroupRun(GroupUnderTest& group, std::vector<CollectiveCall> calls,
           const std::vector<std::vector<std::byte>>& inputs, Place place, int turn);
  ~GroupRun();

  void Start(int rank);
  void StartAll();
  bool IsDone(int rank) const;
  // The rank is dead: its call does not end.
  void Forget(int rank);
  // False when they did not end in time.
  [[nodiscard]] bool Wait();
  GroupResult Result();

 private:
  struct RankState;
  GroupUnderTest& group_;
  std::vector<std::unique_ptr<RankState>> ranks_;
};

// The same call on all ranks, with inputs and counts as the reference has them.
GroupResult RunGroup(GroupUnderTest& group, const std::vector<CollectiveCall>& calls,
                     const std::vector<std::vector<std::byte>>& inputs, Place place, int turn);

}  // namespace cohort
