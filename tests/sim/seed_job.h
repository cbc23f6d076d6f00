#pragma once

// The job of one seed: two counters in slices over the parameter servers, and items of work. An
// item is a closure that adds 1 to every element of some counters, or changes nothing, or fails.
// Each item that does not fail is done exactly once, whatever dies; what that means for the
// counters is known from outside.

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "coordinator/api/cluster_coordinator.h"

namespace cohort {

struct SeedPlan {
  enum class Item { kAddA, kAddB, kAddBoth, kReadAndAdd, kEcho, kFail };
  int ps = 1;
  int workers = 1;
  int closures_in_flight = 2;
  std::optional<uint64_t> steps_ahead_max;  // absent: asynchronous
  int rows = 4;  // many: pushes are so large that a ps takes them in two steps
  int slices = 2;
  size_t queue_bound = 1024;
  size_t redo_max = 65536;
  absl::Duration recovery_interval;
  absl::Duration lease;
  absl::Duration ps_delay;  // of a task of a busy ps, at most
  // Whether every start of a task but the coordinator finds an empty disk of its own, so that
  // checkpoints stream.
  bool private_disks = false;
  size_t chunk_bytes = 0;  // of shards that stream
  uint32_t pace = 0;         // milliseconds between two items at most
  uint32_t resume_pace = 0;  // as what an earlier coordinator left open is scheduled again
  std::vector<Item> items;

  // What the faults of the run are to meet.
  struct Wants {
    bool fence = false;
    bool takeover = false;  // while pushes are under way: the ps takes its time for them
  };
  static SeedPlan Draw(uint64_t seed, const Wants& wants);
  bool Adds(int item, const std::string& variable) const;
  std::string Describe() const;
};

inline constexpr char kVariableA[] = "a";
inline constexpr char kVariableB[] = "b";

// What a coordinator's program remembers of its closures: saved with each recovery checkpoint, so
// that the next one knows which items are left.
class ItemLog {
 public:
  enum class State { kOpen, kDone, kFailed, kCancelled };
  struct Entry {
    int item = 0;
    State state = State::kOpen;
    RemoteValue result;  // without value: of an earlier coordinator
    std::string first;   // what it said when it was seen first
  };

  // States follow results; what the cut leaves open is open.
  std::string Save(const Cut& cut);
  void Load(const std::string& saved);
  // Takes over what results say by now.
  void Update();
  State StateOf(uint64_t id) { return Updated(id).state; }
  // Whether the result is still the one that was seen first.
  bool IsAsFirstSeen(const Entry& entry) const;

  std::map<uint64_t, Entry>& entries() { return entries_; }

 private:
  Entry& Updated(uint64_t id);
  std::map<uint64_t, Entry> entries_;  // by closure
};

// Programs and variables, made anew by each coordinator.
struct SeedPrograms {
  std::map<SeedPlan::Item, ProgramHandle> of;
  std::vector<Variable> variables;
};
absl::StatusOr<SeedPrograms> MakeSeedPrograms(ClusterCoordinator& coordinator,
                                              const SeedPlan& plan);
// Without the result of a failing item's program, nothing is scheduled but its arguments differ.
ScheduleOptions OptionsFor(SeedPlan::Item item);

}  // namespace cohort
