#include "coordinator/api/checkpoint_manager.h"

#include <algorithm>
#include <set>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "common/base/excerpt.h"
#include "common/base/log.h"
#include "common/base/status.h"
#include "common/base/temporary_file.h"
#include "common/checkpoint/bundle.h"
#include "common/checkpoint/bundle_format.h"
#include "common/checkpoint/checkpoint_files.h"
#include "common/program/aggregation.h"
#include "common/program/update_rule.h"
#include "common/wire/error_detail.h"
#include "coordinator/api/coordinator_parts.h"
#include "coordinator/api/load_record.h"

namespace cohort {

namespace {

constexpr char kStepName[] = "global_step";
constexpr char kEpochName[] = "epochs_done";
constexpr char kPassName[] = "data_pass";
constexpr char kExamplesName[] = "data_examples";

// Returns whether the checkpoint has the dynamic table `variable`. A checkpoint stores a table as
// several tensors whose names begin with the table's name.
bool HasTable(const BundleReader& reader, const std::string& variable) {
  const std::string parts = absl::StrCat(variable, kTableRowsInfix);
  const auto first = reader.tensors().lower_bound(parts);
  return first != reader.tensors().end() && absl::StartsWith(first->first, parts);
}

// Checks that the checkpoint has every variable of `variables`, with the shape that the job gives
// it. Skips variables that have one value per replica and no joint value. The error lists all
// variables that are missing or have another shape.
absl::Status CheckModel(const BundleReader& reader, const std::string& prefix,
                        absl::Span<const proto::VariableLayout> variables) {
  std::vector<std::string> problems;
  for (const proto::VariableLayout& variable : variables) {
    const Shape shape = ValueShape(variable);
    const auto found = reader.tensors().find(variable.name());
    // A variable with one value per replica and aggregation NONE is not checked here: the
    // checkpoint has no joint value of the variable, and its home looks for the replicas' values
    // when it restores.
    const bool no_value =
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

// Counts of optimizer slots: those that this job's update rules need ("wanted"), and those that a
// checkpoint contains ("stored").
struct SlotCount {
  int64_t wanted = 0;
  int64_t missing = 0;  // wanted slots that are not stored
  int64_t stored = 0;
  int64_t untaken = 0;  // stored slots that are not wanted
};

// Returns the optimizer slots that a checkpoint contains, each as "<variable> <optimizer>/<slot>".
std::set<std::string> StoredSlots(const BundleReader& reader) {
  std::set<std::string> slots;
  for (const auto& [name, tensor] : reader.tensors()) {
    if (const size_t at = name.find(kSlotInfix); at != std::string::npos) {
      slots.insert(absl::StrCat(name.substr(0, at), " ", name.substr(at + sizeof(kSlotInfix) - 1)));
    } else if (const size_t rows = name.find(kTableRowsInfix); rows != std::string::npos) {
      // A table's rows are stored in tensors
      // "<variable>/.COHORT_ROWS/<buckets>/<part>/<optimizer>/<slot>".
      const std::vector<std::string> parts =
          absl::StrSplit(name.substr(rows + sizeof(kTableRowsInfix) - 1), '/');
      if (parts.size() == 4) {
        slots.insert(absl::StrCat(name.substr(0, rows), " ", parts[2], "/", parts[3]));
      }
    }
  }
  return slots;
}

// Compares the slots that the variables' update rules need with the slots in the checkpoint, and
// counts those that only one side has.
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
  // `stored` now contains only the slots that no variable's update rule needs.
  count.untaken = static_cast<int64_t>(stored.size());
  return count;
}

// Logs how many optimizer slots a restore took from the checkpoint, created new, or left unused.
// Logs nothing if the job needs exactly the slots that the checkpoint contains.
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

// Returns the names of the values in a checkpoint that no variable of the job takes. Slots, rows of
// tables and other parts of variables have names with "/.", which no variable has.
std::vector<std::string> UntakenValues(const BundleReader& reader,
                                       absl::Span<const proto::VariableLayout> variables) {
  std::set<std::string> taken = {kStepName, kEpochName, kPassName, kExamplesName};
  for (const proto::VariableLayout& variable : variables) taken.insert(variable.name());
  std::vector<std::string> untaken;
  for (const auto& [name, tensor] : reader.tensors()) {
    const bool is_part = absl::StartsWith(name, ".") || absl::StrContains(name, "/.");
    if (!is_part && !taken.contains(name)) untaken.push_back(name);
  }
  return untaken;
}

// Returns a list of names for a log line, which is cut behind the eighth.
std::string FirstNames(absl::Span<const std::string> names) {
  constexpr size_t kNamesMax = 8;
  return absl::StrCat(absl::StrJoin(names.subspan(0, kNamesMax), ", "),
                      names.size() > kNamesMax ? ", ..." : "");
}

// Logs the values of a checkpoint that the job has no variable for: the model may have lost a layer
// by mistake.
void SayUntaken(const BundleReader& reader, absl::Span<const proto::VariableLayout> variables) {
  std::vector<std::string> names = UntakenValues(reader, variables);
  if (names.empty()) return;
  for (std::string& name : names) name = Excerpt(name);
  Log(LogLevel::kWarning, "checkpoint_values_not_taken",
      {{"values", names.size()}, {"names", FirstNames(names)}});
}

// Logs how many tensors of a checkpoint have types that Cohort does not have, such as TensorFlow's
// strings, with the names of the first ones.
void SayLeftOut(const BundleReader& reader) {
  if (reader.left_out().empty()) return;
  std::vector<std::string> names;
  for (const auto& [name, type] : reader.left_out()) {
    names.push_back(absl::StrCat(Excerpt(name), " (", TensorFlowTypeName(type), ")"));
  }
  Log(LogLevel::kInfo, "checkpoint_left_out",
      {{"tensors", names.size()}, {"names", FirstNames(names)}});
}

// Adds to an error about damaged or missing files the names of intact checkpoints in the same
// directory.
absl::Status WithOthers(const absl::Status& error, FileSystem& files, const std::string& prefix) {
  if (!absl::IsDataLoss(error) && !absl::IsNotFound(error)) return error;
  return WithDetail(
      absl::Status(error.code(), absl::StrCat(error.message(), "; ",
                                              IntactCheckpointsRemedy(files, DirectoryOf(prefix),
                                                                      BaseName(prefix)))),
      DetailOf(error));
}

// Reads one counter of training progress, such as the number of steps done. Returns 0 if the
// checkpoint lacks the counter, as a checkpoint written by TensorFlow does.
absl::StatusOr<int64_t> ReadCounter(const BundleReader& reader, const std::string& name) {
  const auto found = reader.tensors().find(name);
  if (found == reader.tensors().end() || found->second.dtype != DType::kInt64) return 0;
  ASSIGN_OR_RETURN(const Tensor value, reader.Read(name));
  return value.num_elements() == 1 ? *value.data<int64_t>() : 0;
}

// Reads the training progress (steps, epochs, position in the data) that Save stores in a
// checkpoint beside the variables.
absl::StatusOr<Progress> ReadProgress(const BundleReader& reader) {
  Progress progress;
  ASSIGN_OR_RETURN(progress.global_step, ReadCounter(reader, kStepName));
  ASSIGN_OR_RETURN(progress.epochs_done, ReadCounter(reader, kEpochName));
  ASSIGN_OR_RETURN(progress.data.pass, ReadCounter(reader, kPassName));
  ASSIGN_OR_RETURN(progress.data.examples, ReadCounter(reader, kExamplesName));
  return progress;
}

}  // namespace

absl::Status CheckRestorable(FileSystem& files, const std::string& directory,
                             const std::string& which,
                             absl::Span<const proto::VariableLayout> variables) {
  ASSIGN_OR_RETURN(const std::string prefix, FindCheckpoint(files, directory, which));
  if (prefix.empty()) return absl::OkStatus();
  const absl::StatusOr<std::unique_ptr<BundleReader>> opened = BundleReader::Open(files, prefix);
  if (!opened.ok()) return WithOthers(opened.status(), files, prefix);
  return CheckModel(**opened, prefix, variables);
}

CheckpointManager::CheckpointManager(FileSystem& files, ClusterCoordinator& coordinator,
                                     Options options)
    : files_(files),
      coordinator_(coordinator),
      options_(std::move(options)),
      loads_(std::make_unique<LoadRecord>()) {}

CheckpointManager::~CheckpointManager() = default;

void CheckpointManager::RemoveUnfinished() {
  // An unfinished save may be the one that another coordinator, which has taken over, is making.
  if (IsSaving() && coordinator_.ConfirmHeld().ok()) {
    RemoveUnfinishedSaves(files_, options_.directory);
  }
}

bool CheckpointManager::IsIntact(const std::string& prefix) const {
  return BundleReader::Open(files_, prefix).ok();
}

bool CheckpointManager::Holds(const std::string& prefix, const Progress& progress) const {
  const absl::StatusOr<std::unique_ptr<BundleReader>> reader = BundleReader::Open(files_, prefix);
  if (!reader.ok()) return false;
  const absl::StatusOr<Progress> recorded = ReadProgress(**reader);
  return recorded.ok() && *recorded == progress;
}

absl::StatusOr<std::string> CheckpointManager::UnusedPrefix(int64_t step) const {
  ASSIGN_OR_RETURN(const std::string name,
                   UnusedCheckpointName(files_, options_.directory, CheckpointNameOfStep(step)));
  return JoinPath(options_.directory, name);
}

absl::StatusOr<std::string> CheckpointManager::Save(
    const Progress& progress, absl::Span<const proto::VariableLayout> variables) {
  RETURN_IF_ERROR(files_.MakeDirectories(options_.directory));
  ASSIGN_OR_RETURN(const std::string prefix, UnusedPrefix(progress.global_step));
  if (!preprocessing_.empty()) {
    // It is there before the checkpoint is complete, so no complete checkpoint is without.
    RETURN_IF_ERROR(WriteFileAtomically(files_, PreprocessingPath(prefix), preprocessing_));
  }
  if (absl::Status written = Write(prefix, progress, variables); !written.ok()) {
    // If another coordinator has taken over, files of this name may be those that it has saved. If
    // the removal fails, the error is ignored. The failed save has no index, so no reader finds its
    // files, and they only take disk space.
    if (coordinator_.ConfirmHeld().ok()) DeleteCheckpoint(files_, prefix).IgnoreError();
    return written;
  }
  RETURN_IF_ERROR(MakeLatest(BaseName(prefix)));
  Log(LogLevel::kInfo, "checkpoint_saved", {{"prefix", prefix}, {"step", progress.global_step}});
  latest_ = prefix;
  return prefix;
}

absl::Status CheckpointManager::Adopt(const std::string& prefix) {
  // The process that wrote the checkpoint may have ended before it named the checkpoint in the
  // state file, so the state file is written here.
  RETURN_IF_ERROR(MakeLatest(BaseName(prefix)));
  Log(LogLevel::kInfo, "checkpoint_adopted", {{"prefix", prefix}});
  latest_ = prefix;
  return absl::OkStatus();
}

absl::Status CheckpointManager::Write(const std::string& prefix, const Progress& progress,
                                      absl::Span<const proto::VariableLayout> variables) {
  std::map<std::string, Tensor> extras;
  // The load record (load_record.h) is stored as an extra tensor of the checkpoint, like the
  // progress counters.
  if (!variables.empty()) {
    ASSIGN_OR_RETURN(const proto::PsStatsResponse stats, coordinator_.parts().ps->Stats());
    extras = loads_->Take(stats, variables);
  }
  extras[kStepName] = Tensor::Scalar(progress.global_step);
  extras[kEpochName] = Tensor::Scalar(progress.epochs_done);
  extras[kPassName] = Tensor::Scalar(progress.data.pass);
  extras[kExamplesName] = Tensor::Scalar(progress.data.examples);
  ASSIGN_OR_RETURN(const std::vector<proto::SavedSlice> saved,
                   coordinator_.parts().ps->Save(prefix, extras));
  // The shards were saved under this coordinator's epoch. Another one that has taken over since may
  // have saved a checkpoint of the same name, whose shards this index would not fit.
  RETURN_IF_ERROR(coordinator_.CheckHeld());
  return WriteIndex(files_, prefix, coordinator_.parts().ps->num_savers(), saved);
}

absl::Status CheckpointManager::MakeLatest(const std::string& name) {
  // The latest checkpoint is that of the coordinator which holds the tasks, and this one must not
  // remove what that one keeps.
  RETURN_IF_ERROR(coordinator_.CheckHeld());
  CheckpointState state;
  if (auto held = ReadCheckpointState(files_, options_.directory); held.ok()) {
    // The new state file lists all checkpoints of the old one, and the new checkpoint.
    state = *std::move(held);
  } else if (!absl::IsNotFound(held.status())) {
    // A damaged state file is replaced, because it only lists old checkpoints. Any other read error
    // is returned.
    if (!absl::IsDataLoss(held.status())) return held.status();
    Log(LogLevel::kWarning, "checkpoint_state_replaced",
        {{"cause", held.status().message()},
         {"lost", "which older checkpoints to remove by checkpoint.max_to_keep"}});
  }
  state.latest = name;
  state.all.erase(std::remove(state.all.begin(), state.all.end(), name), state.all.end());
  state.all.push_back(name);
  // At least one checkpoint is kept, even if max_to_keep is 0.
  std::vector<std::string> dropped;
  const size_t keep = static_cast<size_t>(std::max<int64_t>(options_.max_to_keep, 1));
  while (state.all.size() > keep) {
    dropped.push_back(state.all.front());
    state.all.erase(state.all.begin());
  }
  // The state file is written before old checkpoints are deleted, so it never names a deleted
  // checkpoint.
  RETURN_IF_ERROR(WriteCheckpointState(files_, options_.directory, state));
  for (const std::string& old : dropped) {
    // A failed removal is ignored: files that are left behind only cost disk space.
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
  // Parameter servers restore any tensor whose name is a variable's name, so the coordinator itself
  // must refuse a checkpoint of another model.
  RETURN_IF_ERROR(CheckModel(*reader, prefix, variables));
  Progress progress;
  // If only the variables are restored (weights_only), the training begins anew at step 0.
  if (!options_.weights_only) {
    absl::StatusOr<Progress> read = ReadProgress(*reader);
    if (!read.ok()) return WithOthers(read.status(), files_, prefix);
    progress = *read;
  }
  const absl::Status restored = coordinator_.parts().ps->Restore(
      prefix, options_.weights_only ? PsControl::Slots::kNew : PsControl::Slots::kOfCheckpoint);
  if (!restored.ok()) return WithOthers(restored, files_, prefix);
  Log(LogLevel::kInfo, "checkpoint_restored",
      {{"prefix", prefix},
       {"step", progress.global_step},
       {"weights_only", options_.weights_only ? "yes" : "no"}});
  latest_ = prefix;
  SayLeftOut(*reader);
  SayUntaken(*reader, variables);
  RETURN_IF_ERROR(SaySlots(*reader, variables, options_.weights_only));
  return std::optional<Progress>(progress);
}

}  // namespace cohort
