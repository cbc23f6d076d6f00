#pragma once

// What can go wrong, and during what. A run counts how often each fault struck in each phase.

#include <array>
#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace cohort {

enum class Fault {
  kDropRequest,
  kDropResponse,
  kDuplicate,
  kDelay,            // overtaken by what is sent later
  kCutShort,         // both directions, shorter than the lease
  kCutLong,          // both directions, longer than it
  kCutOneWay,
  kKillWorker,       // before a request is handled, after its effect, or in a file call
  kKillPs,
  kKillCoordinator,
  kZombieWorker,     // cut off from everybody for longer than the lease; then it is back
  kZombieCoordinator,  // cut off while another takes over; then it is back
  kSlowDisk,
  kTornWrite,        // the disk loses power: what was not synced is gone
  kDiskError,
};
inline constexpr int kFaults = 15;

// What was under way when the fault struck.
enum class Phase {
  kClaim,    // GetStatus, Attach; the coordinator reads what an earlier one left
  kCreate,   // CreateVariables, RegisterProgram
  kPull,
  kPush,
  kReply,    // RunClosure
  kHold,     // HoldShard
  kSave,     // ProbeDirectory, WriteShard, ReadShard, ReleaseShard; whoever writes the shards
  kCommit,   // the coordinator writes the index and the state file
  kRestore,  // StageRestore, WriteStaged, RestoreShard; whoever reads the shards
  kResume,   // RunClosure of a closure that ran before the restore
  kFence,
  kIdle,     // Watch
};
inline constexpr int kPhases = 12;

absl::string_view NameOf(Fault fault);
absl::string_view NameOf(Phase phase);
// Errors: INVALID_ARGUMENT listing the names.
absl::StatusOr<Fault> FaultFromName(absl::string_view name);

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
  std::string ToString() const;

 private:
  uint64_t& Cell(Fault fault, Phase phase) {
    return cells_[static_cast<size_t>(fault)][static_cast<size_t>(phase)];
  }
  std::array<std::array<uint64_t, kPhases>, kFaults> cells_{};
};

}  // namespace cohort
