#include "tests/sim/fault_table.h"

#include "absl/strings/str_cat.h"

namespace cohort {

namespace {

constexpr std::array<absl::string_view, kFaults> kFaultNames = {
    "drop-request", "drop-response", "duplicate",   "delay",
    "cut-short",    "cut-long",      "cut-one-way", "kill-worker",
    "kill-ps",      "kill-coordinator", "zombie-worker", "zombie-coordinator",
    "slow-disk",    "torn-write",    "disk-error"};
constexpr std::array<absl::string_view, kPhases> kPhaseNames = {
    "claim",  "create",  "pull",   "push",  "reply", "hold",
    "save",   "commit",  "restore", "resume", "fence", "idle"};

bool IsOfMessages(Fault fault) { return fault <= Fault::kDelay; }
bool IsOfTheDisk(Fault fault) { return fault >= Fault::kSlowDisk; }

}  // namespace

absl::string_view NameOf(Fault fault) { return kFaultNames[static_cast<size_t>(fault)]; }
absl::string_view NameOf(Phase phase) { return kPhaseNames[static_cast<size_t>(phase)]; }

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

std::string FaultTable::ToString() const {
  std::string text = "| |";
  for (const absl::string_view name : kPhaseNames) absl::StrAppend(&text, " ", name, " |");
  absl::StrAppend(&text, "\n|---|");
  for (int i = 0; i < kPhases; ++i) absl::StrAppend(&text, "---|");
  for (int i = 0; i < kFaults; ++i) {
    const auto fault = static_cast<Fault>(i);
    absl::StrAppend(&text, "\n| ", NameOf(fault), " |");
    for (int j = 0; j < kPhases; ++j) {
      const auto phase = static_cast<Phase>(j);
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
