#include "tests/sim/fault_table.h"

#include <algorithm>
#include <vector>

#include "absl/strings/str_cat.h"

namespace cohort {

namespace {

constexpr std::array<absl::string_view, kFaults> kFaultNames = {
    "drop-request",  "drop-response",      "duplicate",   "delay",         "cut-short",
    "cut-long",      "cut-one-way",        "kill-worker", "kill-ps",       "kill-coordinator",
    "zombie-worker", "zombie-coordinator", "slow-disk",   "torn-write",    "disk-error",
    "cut-workers",   "stop-short",         "stop-long",   "remove-worker", "part"};
constexpr std::array<absl::string_view, kPhases> kPhaseNames = {
    "claim", "create", "pull", "push",  "reply",  "hold", "save",  "commit", "restore", "resume",
    "fence", "idle",   "gang", "again", "single", "end",  "frame", "group",  "abort"};

constexpr std::array<Fault, 15> kCounterFaults = {
    Fault::kDropRequest, Fault::kDropResponse,    Fault::kDuplicate,    Fault::kDelay,
    Fault::kCutShort,    Fault::kCutLong,         Fault::kCutOneWay,    Fault::kKillWorker,
    Fault::kKillPs,      Fault::kKillCoordinator, Fault::kZombieWorker, Fault::kZombieCoordinator,
    Fault::kSlowDisk,    Fault::kTornWrite,       Fault::kDiskError};
constexpr std::array<Phase, 12> kCounterPhases = {
    Phase::kClaim, Phase::kCreate, Phase::kPull,    Phase::kPush,   Phase::kReply, Phase::kHold,
    Phase::kSave,  Phase::kCommit, Phase::kRestore, Phase::kResume, Phase::kFence, Phase::kIdle};
constexpr std::array<Fault, 15> kGangFaults = {
    Fault::kDropRequest, Fault::kDropResponse,    Fault::kDuplicate,    Fault::kDelay,
    Fault::kCutShort,    Fault::kCutLong,         Fault::kCutOneWay,    Fault::kCutWorkers,
    Fault::kKillWorker,  Fault::kKillCoordinator, Fault::kZombieWorker, Fault::kZombieCoordinator,
    Fault::kStopShort,   Fault::kStopLong,        Fault::kRemoveWorker};
constexpr std::array<Phase, 14> kGangPhases = {
    Phase::kClaim,    Phase::kCreate,  Phase::kGang,  Phase::kAgain, Phase::kSingle,
    Phase::kEndGangs, Phase::kFrame,   Phase::kGroup, Phase::kAbort, Phase::kHold,
    Phase::kSave,     Phase::kRestore, Phase::kFence, Phase::kIdle};

bool IsOfMessages(Fault fault) { return fault <= Fault::kDelay; }
bool IsOfTheDisk(Fault fault) { return fault >= Fault::kSlowDisk && fault <= Fault::kDiskError; }

}  // namespace

absl::string_view NameOf(Fault fault) { return kFaultNames[static_cast<size_t>(fault)]; }
absl::string_view NameOf(Phase phase) { return kPhaseNames[static_cast<size_t>(phase)]; }

absl::Span<const Fault> FaultsOf(SeedJob job) {
  if (job == SeedJob::kGangs) return kGangFaults;
  return kCounterFaults;
}
absl::Span<const Phase> PhasesOf(SeedJob job) {
  if (job == SeedJob::kGangs) return kGangPhases;
  return kCounterPhases;
}

absl::StatusOr<Fault> FaultFromName(absl::string_view name) {
  std::string known;
  for (int i = 0; i < kFaults; ++i) {
    const auto fault = static_cast<Fault>(i);
    if (NameOf(fault) == name) return fault;
    absl::StrAppend(&known, known.empty() ? "" : ", ", NameOf(fault));
  }
  return absl::InvalidArgumentError(
      absl::StrCat("no fault is called '", name, "'; there are: ", known));
}

absl::string_view WhyNever(Fault fault, Phase phase) {
  if (IsOfMessages(fault) && phase == Phase::kCommit) return "no message belongs to a commit";
  const bool files = phase == Phase::kClaim || phase == Phase::kSave || phase == Phase::kCommit ||
                     phase == Phase::kRestore;
  if (IsOfTheDisk(fault) && !files) return "no file is touched";
  return "";
}

void FaultTable::Add(const FaultTable& other) {
  for (size_t fault = 0; fault < kFaults; ++fault) {
    for (size_t phase = 0; phase < kPhases; ++phase) {
      cells_[fault][phase] += other.cells_[fault][phase];
    }
  }
}

std::string FaultTable::ToString(SeedJob job) const {
  std::string text = "| |";
  for (const Phase phase : PhasesOf(job)) absl::StrAppend(&text, " ", NameOf(phase), " |");
  absl::StrAppend(&text, "\n|---|");
  for (size_t i = 0; i < PhasesOf(job).size(); ++i) absl::StrAppend(&text, "---|");
  std::vector<Fault> faults(FaultsOf(job).begin(), FaultsOf(job).end());
  const auto& parts = cells_[static_cast<size_t>(Fault::kPart)];
  if (std::any_of(parts.begin(), parts.end(), [](uint64_t count) { return count > 0; })) {
    faults = {Fault::kPart};
  }
  for (const Fault fault : faults) {
    absl::StrAppend(&text, "\n| ", NameOf(fault), " |");
    for (const Phase phase : PhasesOf(job)) {
      if (WhyNever(fault, phase).empty()) {
        absl::StrAppend(&text, " ", Get(fault, phase), " |");
      } else {
        absl::StrAppend(&text, " - |");
      }
    }
  }
  return absl::StrCat(text, "\n");
}

}  // namespace cohort
