#pragma once

// What can go wrong, and during what, in each kind of job. A run counts how often each fault struck
// in each phase.

#include <array>
#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace cohort {

enum class SeedJob {
  kCounters,  // closures, pushes and checkpoints of a cluster with parameter servers (seed_run.h)
  kGangs,     // synchronous steps of a group of workers (gang_run.h)
};

enum class Fault {
  kDropRequest,
  kDropResponse,
  kDuplicate,
  kDelay,     // overtaken by what is sent later
  kCutShort,  // both directions, shorter than the lease
  kCutLong,   // both directions, longer than it
  kCutOneWay,
  kKillWorker,  // before a request is handled, after its effect, or in a file call
  kKillPs,
  kKillCoordinator,
  kZombieWorker,       // cut off from everybody for longer than the lease; then it is back
  kZombieCoordinator,  // cut off while another takes over; then it is back
  kSlowDisk,
  kTornWrite,  // the disk loses power: what was not synced is gone
  kDiskError,
  // Of gangs:
  kCutWorkers,    // two workers do not reach each other, and everybody else reaches both
  kStopShort,     // a worker stands still, as under SIGSTOP, for less than the lease
  kStopLong,      // and for longer
  kRemoveWorker,  // by order, and added again later; in between it may be another process
  // The one fault of a run: no other strikes beside it (progress_check.h).
  kPart,  // two hosts, of all, do not reach each other, one way or both, for longer than the lease
};
inline constexpr int kFaults = 20;

// What was under way when the fault struck.
enum class Phase {
  kClaim,   // GetStatus, Attach; the coordinator reads what an earlier one left
  kCreate,  // CreateVariables, RegisterProgram
  kPull,
  kPush,
  kReply,    // RunClosure
  kHold,     // HoldShard
  kSave,     // ProbeDirectory, WriteShard, ReadShard, ReleaseShard; whoever writes the shards
  kCommit,   // the coordinator writes the index and the state file
  kRestore,  // StageRestore, Write- and FetchStaged, RestoreShard; whoever reads the shards
  kResume,   // RunClosure of a closure that ran before the restore
  kFence,
  kIdle,  // Watch
  // Of gangs:
  kGang,      // RunClosure of a gang that runs for the first time
  kAgain,     // of one that runs again, also after a restore
  kSingle,    // RunClosure of a single closure
  kEndGangs,  // a member is told of another's failure
  kFrame,     // Deliver
  kGroup,     // WatchGroup, AskProgress
  kAbort,     // AbortGroup
};
inline constexpr int kPhases = 19;

absl::string_view NameOf(Fault fault);
absl::string_view NameOf(Phase phase);
// Errors: INVALID_ARGUMENT listing the names.
absl::StatusOr<Fault> FaultFromName(absl::string_view name);

// Those of a job, in the order of its table.
absl::Span<const Fault> FaultsOf(SeedJob job);
absl::Span<const Phase> PhasesOf(SeedJob job);

// Why a fault cannot strike in a phase; empty: it can.
absl::string_view WhyNever(Fault fault, Phase phase);

// Thread-compatible.
class FaultTable {
 public:
  void Count(Fault fault, Phase phase) { ++Cell(fault, phase); }
  void Add(const FaultTable& other);
  uint64_t Get(Fault fault, Phase phase) const {
    return cells_[static_cast<size_t>(fault)][static_cast<size_t>(phase)];
  }
  // Markdown.
  std::string ToString(SeedJob job) const;

 private:
  uint64_t& Cell(Fault fault, Phase phase) {
    return cells_[static_cast<size_t>(fault)][static_cast<size_t>(phase)];
  }
  std::array<std::array<uint64_t, kPhases>, kFaults> cells_{};
};

}  // namespace cohort
