#include "coordinator/api/checkpoint_manager.h"

#include <algorithm>
#include <set>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "common/base/log.h"
#include "common/checkpoint/bundle.h"
#include "common/checkpoint/checkpoint_files.h"
#include "common/checkpoint/shard_layout.h"
#include "common/program/replica_rows.h"
#include "common/program/update_rule.h"

namespace cohort {

namespace {

constexpr char kStepName[] = "global_step";
constexpr char kEpochName[] = "epochs_done";
constexpr char kPassName[] = "data_pass";
constexpr char kExamplesName[] = "data_examples";

// A dynamic table has no tensor of its name, but parts below it.
bool HasTable(const BundleReader& reader, const std::string& variable) {
  const std::string parts = absl::StrCat(variable, kTableRowsInfix);
  const auto first = reader.tensors().lower_bound(parts);
  return first != reader.tensors().end() && absl::StartsWith(first->first, parts);
}

absl::Status CheckModel(const BundleReader& reader, const std::string& prefix,
                        absl::Span<const proto::VariableLayout> variables) {
  std::vector<std::string> problems;
  for (const proto::VariableLayout& variable : variables) {
    const Shape shape = ValueShape(variable);
    const auto found = reader.tensors().find(variable.name());
    const bool no_value =  // but those of replicas, which their home finds
        variable.replicas() > 0 && variable.aggregation() == proto::AGGREGATION_NONE;
    if (no_value) continue;
    if (variable.has_dynamic()) {
      if (HasTable(reader, variable.name())) continue;
      problems.push_back(absl::StrCat("dynamic table ", variable.name(), " is not in it"));
    } else if (found == reader.tensors().end()) {
      problems.push_back(absl::StrCat(variable.name(), " ", shape.ToString(), " is not in it"));
    } else if (found->second.shape != shape) {
      problems.push_back(absl::StrCat(variable.name(), " is ", shape.ToString(), " here and ",
                                      found->second.shape.ToString(), " in it"));
    }
  }
  if (problems.empty()) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat("checkpoint ", prefix, " is of another model: ", absl::StrJoin(problems, "; "),
                   "; name a checkpoint of this model in checkpoint.restore, or another "
                   "checkpoint.directory"));
}

// Slots of optimizers: what this job has, and what a checkpoint has.
struct SlotCount {
  int64_t wanted = 0;
  int64_t missing = 0;  // those of them that are not in the checkpoint
  int64_t stored = 0;
  int64_t untaken = 0;  // those of them that are not wanted
};

// Returns the slots that a checkpoint has as "<variable> <optimizer>/<slot>".
std::set<std::string> StoredSlots(const BundleReader& reader) {
  std::set<std::string> slots;
  for (const auto& [name, tensor] : reader.tensors()) {
    if (const size_t at = name.find(kSlotInfix); at != std::string::npos) {
      slots.insert(absl::StrCat(name.substr(0, at), " ", name.substr(at + sizeof(kSlotInfix) - 1)));
    } else if (const size_t rows = name.find(kTableRowsInfix); rows != std::string::npos) {
      // "<variable>/.COHORT_ROWS/<buckets>/<part>/<optimizer>/<slot>"
      const std::vector<std::string> parts =
          absl::StrSplit(name.substr(rows + sizeof(kTableRowsInfix) - 1), '/');
      if (parts.size() == 4) {
        slots.insert(absl::StrCat(name.substr(0, rows), " ", parts[2], "/", parts[3]));
      }
    }
  }
  return slots;
}

absl::StatusOr<SlotCount> CountSlots(const BundleReader& reader,
                                     absl::Span<const proto::VariableLayout> variables) {
  std::set<std::string> stored = StoredSlots(reader);
  SlotCount count;
  count.stored = static_cast<int64_t>(stored.size());
  for (const proto::VariableLayout& variable : variables) {
    ASSIGN_OR_RETURN(const UpdateRuleSpec rule, DescribeUpdateRule(variable.rule()));
    for (const SlotSpec& slot : rule.slots) {
      ++count.wanted;
      const size_t taken =
          stored.erase(absl::StrCat(variable.name(), " ", variable.rule().op(), "/", slot.name));
      if (taken == 0) ++count.missing;
    }
  }
  count.untaken = static_cast<int64_t>(stored.size());
  return count;
}

absl::Status SaySlots(const BundleReader& reader, absl::Span<const proto::VariableLayout> variables,
                      bool weights_only) {
  ASSIGN_OR_RETURN(SlotCount slots, CountSlots(reader, variables));
  if (weights_only) {
    slots.missing = slots.wanted;
    slots.untaken = slots.stored;
  }
  if (slots.missing == 0 && slots.untaken == 0) return absl::OkStatus();
  Log(LogLevel::kWarning, "checkpoint_slots",
      {{"restored", slots.wanted - slots.missing},
       {"new", slots.missing},
       {"not_taken", slots.untaken}});
  return absl::OkStatus();
}

absl::Status WithOthers(const absl::Status& error, FileSystem& files, const std::string& prefix) {
  return absl::Status(
      error.code(),
      absl::StrCat(error.message(), "; ", IntactCheckpointsRemedy(files, DirectoryOf(prefix))));
}

int64_t ReadCounter(const BundleReader& reader, const std::string& name) {
  const absl::StatusOr<Tensor> value = reader.Read(name);
  if (!value.ok() || value->dtype() != DType::kInt64 || value->num_elements() != 1) return 0;
  return *value->data<int64_t>();
}

}  // namespace

CheckpointManager::CheckpointManager(FileSystem& files, ClusterCoordinator& coordinator,
                                     Options options)
    : files_(files), coordinator_(coordinator), options_(std::move(options)) {}

void CheckpointManager::RemoveUnfinished() {
  if (IsSaving()) RemoveUnfinishedSaves(files_, options_.directory);
}

absl::StatusOr<std::string> CheckpointManager::Save(
    const Progress& progress, absl::Span<const proto::VariableLayout> variables) {
  RETURN_IF_ERROR(files_.MakeDirectories(options_.directory));
  ASSIGN_OR_RETURN(
      const std::string name,
      UnusedCheckpointName(files_, options_.directory, CheckpointNameOfStep(progress.global_step)));
  const std::string prefix = JoinPath(options_.directory, name);
  if (absl::Status written = Write(prefix, progress, variables); !written.ok()) {
    // Without an index nothing names what was written.
    DeleteCheckpoint(files_, prefix).IgnoreError();
    return written;
  }
  RETURN_IF_ERROR(MakeLatest(name));
  Log(LogLevel::kInfo, "checkpoint_saved", {{"prefix", prefix}, {"step", progress.global_step}});
  return prefix;
}

absl::Status CheckpointManager::Write(const std::string& prefix, const Progress& progress,
                                      absl::Span<const proto::VariableLayout> variables) {
  std::map<std::string, Tensor> extras;
  if (!variables.empty()) {
    ASSIGN_OR_RETURN(const proto::PsStatsResponse stats, coordinator_.ps().Stats());
    extras = loads_.Take(stats, variables);
  }
  extras[kStepName] = Tensor::Scalar(progress.global_step);
  extras[kEpochName] = Tensor::Scalar(progress.epochs_done);
  extras[kPassName] = Tensor::Scalar(progress.data.pass);
  extras[kExamplesName] = Tensor::Scalar(progress.data.examples);
  ASSIGN_OR_RETURN(const std::vector<proto::SavedSlice> saved,
                   coordinator_.ps().Save(prefix, extras));
  return WriteIndex(files_, prefix, coordinator_.ps().num_savers(), saved);
}

absl::Status CheckpointManager::MakeLatest(const std::string& name) {
  CheckpointState state;
  if (auto held = ReadCheckpointState(files_, options_.directory); held.ok()) {
    state = *std::move(held);
  } else if (!absl::IsNotFound(held.status())) {
    if (!absl::IsDataLoss(held.status())) return held.status();
    Log(LogLevel::kWarning, "checkpoint_state_replaced",
        {{"cause", held.status().message()},
         {"lost", "which older checkpoints to remove by checkpoint.max_to_keep"}});
  }
  state.latest = name;
  state.all.erase(std::remove(state.all.begin(), state.all.end(), name), state.all.end());
  state.all.push_back(name);
  std::vector<std::string> dropped;
  const size_t keep = static_cast<size_t>(std::max<int64_t>(options_.max_to_keep, 1));
  while (state.all.size() > keep) {
    dropped.push_back(state.all.front());
    state.all.erase(state.all.begin());
  }
  RETURN_IF_ERROR(WriteCheckpointState(files_, options_.directory, state));
  for (const std::string& old : dropped) {
    // Left-over files cost room only.
    DeleteCheckpoint(files_, absl::StartsWith(old, "/") ? old : JoinPath(options_.directory, old))
        .IgnoreError();
  }
  return absl::OkStatus();
}

absl::StatusOr<std::optional<Progress>> CheckpointManager::Restore(
    const std::string& which, absl::Span<const proto::VariableLayout> variables) {
  ASSIGN_OR_RETURN(const std::string prefix, FindCheckpoint(files_, options_.directory, which));
  if (prefix.empty()) {
    Log(LogLevel::kWarning, "checkpoint_none",
        {{"directory", options_.directory},
         {"effect", "there is nothing to restore, so the training begins anew"}});
    return std::optional<Progress>();
  }
  absl::StatusOr<std::unique_ptr<BundleReader>> opened = BundleReader::Open(files_, prefix);
  if (!opened.ok()) return WithOthers(opened.status(), files_, prefix);
  const std::unique_ptr<BundleReader> reader = *std::move(opened);
  RETURN_IF_ERROR(CheckModel(*reader, prefix, variables));
  RETURN_IF_ERROR(coordinator_.ps().Restore(
      prefix, options_.weights_only ? PsControl::Slots::kNew : PsControl::Slots::kOfCheckpoint));
  Progress progress;
  if (!options_.weights_only) {
    progress = {ReadCounter(*reader, kStepName),
                ReadCounter(*reader, kEpochName),
                {ReadCounter(*reader, kPassName), ReadCounter(*reader, kExamplesName)}};
  }
  Log(LogLevel::kInfo, "checkpoint_restored",
      {{"prefix", prefix},
       {"step", progress.global_step},
       {"weights_only", options_.weights_only ? "yes" : "no"}});
  RETURN_IF_ERROR(SaySlots(*reader, variables, options_.weights_only));
  return std::optional<Progress>(progress);
}

}  // namespace cohort
