// What a checkpoint holds, by its files.

#include <algorithm>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/base/check.h"
#include "common/base/status.h"
#include "common/checkpoint/bundle.h"
#include "common/checkpoint/checkpoint_files.h"
#include "coordinator/recovery/recovery_store.h"
#include "tests/sim/fault_injector.h"
#include "tests/sim/ps_checker.h"

namespace cohort {

namespace {

// The numbers of a slice's history in a checkpoint (docs/PROTOCOL.md).
enum AppliedField {
  kAppliedRows,
  kAppliedVersion,
  kAppliedWatermark,
  kAppliedUpdate,
  kAppliedRound,
  kAppliedIds
};

}  // namespace

bool Covers(const proto::CoordinatorState& state, uint64_t closure) {
  return closure < state.next_id() &&
         std::find(state.open().begin(), state.open().end(), closure) == state.open().end();
}

std::string PsChecker::PrefixOf(const std::string& path) const {
  if (!absl::StartsWith(path, options_.directory + "/recovery-")) return "";
  return path.substr(0, path.find('.'));
}

void PsChecker::OnFileDone(const std::string& host, const FileCall& call) {
  // An index counts once it is whole under its name, however it came there.
  const bool whole = call.kind == FileCall::Kind::kRename || call.kind == FileCall::Kind::kClose;
  if (RoleOf(host) != "chief" || !whole || !absl::EndsWith(call.path, ".index")) return;
  const std::string prefix = PrefixOf(call.path);
  if (!prefix.empty()) OnCommit(prefix);
}

void PsChecker::OnCommit(const std::string& prefix) {
  const absl::StatusOr<std::unique_ptr<BundleReader>> reader = BundleReader::Open(disk_, prefix);
  const absl::StatusOr<Tensor> bytes =
      reader.ok() ? (*reader)->Read(kCoordinatorStateName) : reader.status();
  if (!bytes.ok()) return options_.violate(absl::StrCat(prefix, ": ", bytes.status().ToString()));
  proto::CoordinatorState& state = committed_[prefix];
  COHORT_CHECK(state.ParseFromArray(bytes->raw(), static_cast<int>(bytes->num_bytes())),
               "a state that production code made");
  durable_[state.epoch()] = state;
  const Slices& slices = saved_[prefix];
  for (const ClosureKnowledge& closure : options_.closures(coordinator_of_epoch_[state.epoch()])) {
    if (!Covers(state, closure.id)) continue;
    for (const auto& [slice, model] : slices) {
      const auto& pushed = closure.variables;
      if (std::find(pushed.begin(), pushed.end(), places_[slice].variable) == pushed.end()) {
        continue;
      }
      if (model.HasOrWasFull(closure.id, closure.round)) continue;
      options_.violate(absl::StrCat(prefix, " covers closure ", closure.id,
                                    ", which is not in its slice ", slice));
    }
  }
  for (const auto& [slice, model] : slices) {
    const std::set<uint64_t> known = model.Remembered(0);
    if (!known.empty() && *known.rbegin() >= state.next_id()) {
      options_.violate(absl::StrCat(prefix, ", slice ", slice, ": closure ", *known.rbegin(),
                                    " is in it, and the next coordinator would give the id anew"));
    }
    const absl::Status whole = CheckSaved(**reader, slice, model, state);
    if (whole.ok()) continue;
    options_.violate(absl::StrCat(prefix, ", slice ", slice, ": ", whole.message()));
  }
  CheckWholeRounds(prefix, slices);
  CheckVisible();
}

// All slices of a variable have the same rounds: a step that runs again after a restore reads what
// was before its round.
void PsChecker::CheckWholeRounds(const std::string& prefix, const Slices& slices) {
  std::map<std::string, uint64_t> rounds;
  for (const auto& [slice, model] : slices) {
    const std::string& variable = places_[slice].variable;
    const uint64_t first = rounds.emplace(variable, model.last_round()).first->second;
    if (first == model.last_round()) continue;
    options_.violate(absl::StrCat(prefix, " has round ", model.last_round(), " in slice ", slice,
                                  " of ", variable, ", and round ", first, " in another"));
  }
}

absl::Status PsChecker::CheckSaved(const BundleReader& reader, uint32_t slice,
                                   const SliceModel& model, const proto::CoordinatorState& state) {
  const Place& place = places_[slice];
  ASSIGN_OR_RETURN(const Tensor value, reader.ReadRows(place.variable, place.rows));
  for (const float element : value.span<float>()) {
    if (element == static_cast<float>(model.value())) continue;
    return absl::InternalError(
        absl::StrCat("its value is ", element, " where ", model.version(), " pushes are in it"));
  }
  const std::string name = absl::StrCat(place.variable, "/.COHORT_APPLIED/", place.rows.begin);
  ASSIGN_OR_RETURN(const Tensor fields, reader.Read(name));
  const absl::Span<const int64_t> numbers = fields.span<int64_t>();
  if (numbers.size() < kAppliedIds) return absl::InternalError("its history has no head");
  if (static_cast<uint64_t>(numbers[kAppliedVersion]) != model.version() ||
      static_cast<uint64_t>(numbers[kAppliedRound]) != model.last_round()) {
    return absl::InternalError(absl::StrCat(
        "its version is ", numbers[kAppliedVersion], " and its round ", numbers[kAppliedRound],
        " where ", model.version(), " pushes are in it, the last of round ", model.last_round()));
  }
  // Below the watermark nothing is said.
  std::set<uint64_t> said;
  for (size_t i = kAppliedIds; i + 1 < numbers.size(); i += 2) {
    for (int64_t id = numbers[i]; id <= numbers[i + 1]; ++id) {
      said.insert(static_cast<uint64_t>(id));
    }
  }
  const auto watermark = static_cast<uint64_t>(numbers[kAppliedWatermark]);
  if (watermark > state.watermark()) {
    return absl::InternalError(absl::StrCat("its watermark is ", watermark,
                                            ", that of the checkpoint is ", state.watermark()));
  }
  const std::set<uint64_t> known = model.Remembered(watermark);
  if (said == known) return absl::OkStatus();
  return absl::InternalError(absl::StrCat("above ", watermark, " it says that ",
                                          absl::StrJoin(said, " "), " are in it; those are ",
                                          absl::StrJoin(known, " ")));
}

void PsChecker::CheckVisible() {
  const absl::StatusOr<std::vector<std::string>> prefixes =
      ListCheckpoints(disk_, options_.directory);
  if (!prefixes.ok()) return;
  for (const std::string& prefix : *prefixes) {
    const absl::StatusOr<std::unique_ptr<BundleReader>> reader = BundleReader::Open(disk_, prefix);
    absl::Status status = reader.status();
    if (reader.ok()) {
      for (const auto& [name, tensor] : (*reader)->tensors()) {
        status.Update((*reader)->Read(name).status());
      }
    }
    if (!status.ok()) {
      options_.violate(
          absl::StrCat("the visible checkpoint ", prefix, " does not load: ", status.ToString()));
    }
  }
}

}  // namespace cohort
