#pragma once

// The job of one seed: two counters in slices over the parameter servers, and items of work. An
// item is a closure that adds 1 to every element of some counters, or changes nothing, or fails.
// Where the job is synchronous an item that adds is a round of closures, each of which adds an
// amount that tells it from the others of its round. Each item that does not fail is done exactly
// once, whatever dies; what that means for the counters is known from outside.

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "coordinator/api/cluster_coordinator.h"
#include "tests/sim/job_plan.h"

namespace cohort {

// Which work a closure does.
struct SeedWork {
  int item = 0;
  uint64_t round = 0;   // synchronous: its number, 0 for what is no round
  uint32_t member = 0;  // of the round
};

struct SeedPlan : JobPlan {
  enum class Item { kAddA, kAddB, kAddBoth, kReadAndAdd, kEcho, kFail };
  struct Rounds {
    uint32_t aggregate = 1;
    uint32_t backups = 0;
    uint32_t steps() const { return aggregate + backups; }
  };
  std::optional<uint64_t> steps_ahead_max;  // bounded staleness
  std::optional<Rounds> rounds;             // synchronous; asynchronous without either
  int rows = 4;  // many: pushes are so large that a ps takes them in two steps
  int slices = 2;
  absl::Duration ps_delay;   // of a task of a busy ps, at most
  uint32_t resume_pace = 0;  // as what an earlier coordinator left open is scheduled again
  std::vector<Item> items;

  // What the faults of the run are to meet.
  struct Wants {
    bool fence = false;
    bool takeover = false;  // while pushes are under way: the ps takes its time for them
  };
  static SeedPlan Draw(uint64_t seed, const Wants& wants);
  bool IsRound(int item) const { return rounds && Of(item) != Item::kEcho; }
  Item Of(int item) const { return items[static_cast<size_t>(item)]; }
  // What the closure runs: of a round that fails one does.
  Item KindOf(const SeedWork& work) const;
  bool Adds(const SeedWork& work, const std::string& variable) const;
  // To every element: of a round's members a power of two each, when it is divided by `aggregate`.
  float AmountOf(const SeedWork& work) const;
  std::string Describe() const;

 private:
  void DrawRounds(uint64_t seed);
};

inline constexpr char kVariableA[] = "a";
inline constexpr char kVariableB[] = "b";

// What a coordinator's program remembers of its closures: saved with each recovery checkpoint, so
// that the next one knows which items are left.
class ItemLog {
 public:
  enum class State { kOpen, kDone, kFailed, kCancelled };
  struct Entry {
    SeedWork work;
    State state = State::kOpen;
    RemoteValue result;  // without value: of an earlier coordinator
    std::string first;   // what it said when it was seen first
  };

  // How the closures of a round have ended.
  struct RoundCount {
    int item = 0;
    uint32_t closures = 0;
    uint32_t done = 0;
    uint32_t open = 0;
    uint32_t admitted = 0;  // of those that are open
    bool failed = false;
  };
  std::map<uint64_t, RoundCount> Rounds();

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
ScheduleOptions OptionsFor(const SeedPlan& plan, const SeedWork& work);

}  // namespace cohort
