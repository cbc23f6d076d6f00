#include "coordinator/train/init_weights.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/base/excerpt.h"
#include "common/base/log.h"
#include "common/base/status.h"
#include "common/formats/weights/keras_groups.h"
#include "common/formats/weights/match_weights.h"
#include "common/formats/weights/open_weights.h"
#include "common/program/aggregation.h"
#include "common/program/update_rule.h"
#include "coordinator/network/model_config.h"
#include "coordinator/train/optimizer_state.h"

namespace cohort {

namespace {

constexpr size_t kNamesMax = 8;  // upper bound of the names in one line of the log

// Returns at most kNamesMax of the names, and the number of the others.
std::string Names(const std::vector<std::string>& names) {
  std::vector<std::string> first;
  for (const std::string& name : names) {
    if (first.size() == kNamesMax) {
      first.push_back(absl::StrCat("and ", names.size() - kNamesMax, " more"));
      break;
    }
    first.push_back(Excerpt(name));
  }
  return absl::StrJoin(first, ", ");
}

// Returns the layer of a variable: the longest beginning of its name that is a layer in the file.
// The file may list the weights of a wrapper or a nested model under the outer layer.
std::string LayerOf(const std::string& variable, const std::set<std::string>& layers) {
  const size_t end = variable.rfind('/');
  for (size_t at = end; at != std::string::npos && at > 0; at = variable.rfind('/', at - 1)) {
    if (layers.contains(variable.substr(0, at))) return variable.substr(0, at);
  }
  return variable.substr(0, end);
}

// Returns the group of each layer of the job's model in the file, if the file is a .weights.h5
// without names of layers; empty for other files. Such a file numbers its groups by the classes of
// the layers.
std::map<std::string, std::string> GroupsOf(const JobSpec& job, const WeightFile& file) {
  std::map<std::string, std::string> groups;
  const bool is_named = std::any_of(file.entries.begin(), file.entries.end(),
                                    [](const WeightEntry& entry) { return !entry.layer.empty(); });
  if (file.kind != WeightFileKind::kKerasWeights || is_named) return groups;
  for (const auto& [group, layer] : KerasLayersByGroup(ModelToJson(job.model).dump())) {
    groups.emplace(layer, group);
  }
  return groups;
}

// Returns the variables that may have a value. Rows of dynamic tables have no place in such files.
std::vector<WantedWeight> WantedOf(absl::Span<const proto::VariableLayout> variables,
                                   const JobSpec& job, const WeightFile& file) {
  const std::map<std::string, std::string> groups = GroupsOf(job, file);
  std::set<std::string> layers;
  for (const WeightEntry& entry : file.entries) layers.insert(entry.layer);
  for (const auto& [layer, group] : groups) layers.insert(layer);
  std::vector<WantedWeight> wanted;
  std::map<std::string, int> positions;
  for (const proto::VariableLayout& variable : variables) {
    if (variable.has_dynamic()) continue;
    WantedWeight one;
    one.name = variable.name();
    one.shape = ValueShape(variable);
    one.layer = LayerOf(one.name, layers);
    one.position = positions[one.layer]++;
    const auto group = groups.find(one.layer);
    if (group != groups.end()) one.group = group->second;
    wanted.push_back(std::move(one));
  }
  return wanted;
}

std::map<std::string, WeightRename> RenamesOf(const InitFromSpec& init) {
  std::map<std::string, WeightRename> renames;
  for (const auto& [variable, source] : init.map) {
    WeightRename& rename = renames[variable];
    rename.name = source.from;
    for (const int64_t axis : source.transpose) rename.transpose.push_back(static_cast<int>(axis));
  }
  return renames;
}

void LogMatches(const WeightFile& file, const WeightMatches& matches) {
  const bool all = matches.missing.empty() && matches.mismatched.empty();
  Log(all ? LogLevel::kInfo : LogLevel::kWarning, "weights_initialized",
      {{"file", file.path},
       {"kind", WeightFileKindName(file.kind)},
       {"keras_version", file.texts.keras_version},
       {"matched", matches.matched.size()},
       {"missing", matches.missing.size()},
       {"missing_names", Names(matches.missing)},
       {"mismatched", Names(matches.mismatched)},
       {"left_over", matches.left_over.size()},
       {"left_over_names", Names(matches.left_over)},
       {"types_left_out", Names(file.left_out)}});
}

// Logs that the optimizer begins anew. The line is a warning if the file has values of an
// optimizer.
void LogAnew(const WeightFile& file, const std::string& why) {
  const auto of_optimizer =
      std::count_if(file.entries.begin(), file.entries.end(),
                    [](const WeightEntry& entry) { return entry.role == WeightRole::kOptimizer; });
  Log(of_optimizer > 0 ? LogLevel::kWarning : LogLevel::kInfo, "optimizer_state_not_taken",
      {{"file", file.path},
       {"values", of_optimizer},
       {"cause", why},
       {"effect", "the optimizer begins anew, at step 0"},
       {"remedy", "set checkpoint.init_from.weights_only to true if that is meant"}});
}

// Returns whether the optimizer updates the variable, and its slots may come from a file.
bool IsTrained(const proto::VariableLayout& variable) {
  return variable.rule().op() != "assign_add" && !variable.has_dynamic() &&
         variable.replicas() == 0;
}

using Layouts = std::map<std::string, const proto::VariableLayout*>;

// The matching of one file with the variables of a job.
struct Matching {
  const WeightFile& file;
  std::vector<WantedWeight> wanted;
  WeightMatches matches;
  Layouts layouts;  // by name

  const proto::VariableLayout& LayoutOf(const WeightMatch& match) const {
    return *layouts.at(wanted[match.wanted].name);
  }
};

// Finds the optimizer state for the variables that get values from the file. Returns no state if
// the file has no value for any one of the trained variables.
absl::StatusOr<OptimizerStateSearch> FindState(const Matching& matching, const JobSpec& job,
                                               absl::Span<const TrainedVariable> trained) {
  std::set<std::string> without;
  for (const auto& [name, layout] : matching.layouts) {
    if (IsTrained(*layout)) without.insert(name);
  }
  for (const TrainedVariable& variable : trained) without.erase(variable.layout->name());
  OptimizerStateSearch result;
  if (!without.empty()) {
    result.why_not = absl::StrCat("variables that are trained begin as new: ",
                                  Names(std::vector<std::string>(without.begin(), without.end())));
    return result;
  }
  const OptimizerSpec& optimizer = job.compile.optimizer;
  std::optional<double> rate;
  if (optimizer.schedule.class_name.empty()) rate = optimizer.learning_rate;
  return FindOptimizerState(matching.file, trained, rate);
}

// Returns the content of a slot that the file does not have, or nothing if the slot begins with its
// initial value. A moving average begins as its variable. The number of a row's last update begins
// as `step`, as if the row had missed no step.
std::optional<Tensor> BeginningOf(const SlotSpec& slot, const Tensor& value, int64_t step) {
  if (slot.starts_as_value) return value;
  if (slot.name != kLastStepSlot || step == 0) return std::nullopt;
  Tensor steps(DType::kFloat32, ShapeOfSlot(slot, value.shape()));
  const auto bits = static_cast<uint32_t>(step);
  for (int64_t i = 0; i < steps.num_elements(); ++i) {
    std::memcpy(steps.mutable_raw() + static_cast<size_t>(i) * sizeof(bits), &bits, sizeof(bits));
  }
  return steps;
}

// Sets the slots of the variables that got values from the file.
absl::Status SetSlots(const WeightFile& file, absl::Span<const TrainedVariable> trained,
                      const OptimizerState& state, PsControl& ps) {
  std::map<std::pair<size_t, std::string>, const FoundSlot*> found;
  for (const FoundSlot& slot : state.slots) found[{slot.variable, slot.slot}] = &slot;
  for (size_t i = 0; i < trained.size(); ++i) {
    const proto::VariableLayout& layout = *trained[i].layout;
    ASSIGN_OR_RETURN(const UpdateRuleSpec rule, DescribeUpdateRule(layout.rule()));
    for (const SlotSpec& slot : rule.slots) {
      std::optional<Tensor> content;
      if (const auto one = found.find({i, slot.name}); one != found.end()) {
        ASSIGN_OR_RETURN(content, ReadSlot(file, trained[i], *one->second));
      } else if (slot.starts_as_value || slot.name == kLastStepSlot) {
        ASSIGN_OR_RETURN(const Tensor value, ReadMatch(file, trained[i].match, DType::kFloat32));
        content = BeginningOf(slot, value, state.step);
      }
      if (!content.has_value()) continue;
      const absl::Status set = ps.SetSlot(layout, slot.name, *content, ps.NextUpdate());
      RETURN_IF_ERROR(
          Annotate(set, absl::StrCat("slot ", slot.name, " of ", layout.name(), ", ", file.path)));
    }
  }
  return absl::OkStatus();
}

// Adds, for each list of stacked cells in the model, the groups that Keras gives the cells, in the
// order of the cells: "gru_cell", "lstm_cell", "lstm_cell_1".
void AddCellGroups(const nlohmann::ordered_json& form,
                   std::vector<std::vector<std::string>>& lists) {
  for (const auto& [key, value] : form.items()) {
    if (!value.is_structured()) continue;
    AddCellGroups(value, lists);
    if (key != "cells" || !value.is_array()) continue;
    std::map<std::string, int> counts;
    std::vector<std::string>& groups = lists.emplace_back();
    for (const auto& cell : value) {
      const std::string name = KerasSnakeCase(cell.value("class_name", ""));
      const int count = counts[name]++;
      groups.push_back(count == 0 ? name : absl::StrCat(name, "_", count));
    }
  }
}

// Checks that a file of Keras 3 lists stacked cells in the order of the model. Keras 3 sorts them
// by the names of their groups, which follow from their classes.
absl::Status CheckCellOrder(const WeightFile& file, const JobSpec& job) {
  std::set<std::string> mapped;
  for (const auto& [variable, source] : job.checkpoint.init_from.map) mapped.insert(source.from);
  const bool has_cells =
      std::any_of(file.entries.begin(), file.entries.end(), [&](const WeightEntry& entry) {
        return absl::StrContains(entry.name, "/cells/") && !mapped.contains(entry.name);
      });
  if (!has_cells) return absl::OkStatus();
  std::vector<std::vector<std::string>> lists;
  AddCellGroups(ModelToJson(job.model), lists);
  for (const std::vector<std::string>& groups : lists) {
    if (std::is_sorted(groups.begin(), groups.end())) continue;
    return absl::InvalidArgumentError(absl::StrCat(
        file.path, " has the stacked cells ", absl::StrJoin(groups, ", "),
        " under their names, whose order is not that of the cells; map each variable of these "
        "cells in checkpoint.init_from.map"));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<WeightMatches> MatchInitFrom(const WeightFile& file, const JobSpec& job,
                                            absl::Span<const proto::VariableLayout> variables) {
  const InitFromSpec& init = job.checkpoint.init_from;
  RETURN_IF_ERROR(CheckCellOrder(file, job));
  const std::vector<WantedWeight> wanted = WantedOf(variables, job, file);
  ASSIGN_OR_RETURN(WeightMatches matches, MatchWeights(wanted, file, RenamesOf(init)));
  if (!matches.mismatched.empty() && !init.skip_mismatch) {
    return absl::InvalidArgumentError(absl::StrCat(
        file.path,
        " has values of other shapes than the model: ", absl::StrJoin(matches.mismatched, "; "),
        "; name a file of this model, map the variables (with transpose), or set skip_mismatch to "
        "begin them as new"));
  }
  if (matches.matched.empty() && matches.mismatched.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("no value in ", file.path, " fits a variable of the model; the variables are ",
                     Names(matches.missing), ", the values ", Names(matches.left_over),
                     "; map the variables to values with checkpoint.init_from.map"));
  }
  return matches;
}

absl::Status CheckInitFrom(FileSystem& files, const JobSpec& job,
                           absl::Span<const proto::VariableLayout> variables) {
  ASSIGN_OR_RETURN(const WeightFile file, OpenWeights(files, job.checkpoint.init_from.path));
  if (variables.empty()) return absl::OkStatus();
  return MatchInitFrom(file, job, variables).status();
}

absl::StatusOr<int64_t> InitWeights(FileSystem& files, const JobSpec& job,
                                    absl::Span<const proto::VariableLayout> variables,
                                    PsControl& ps) {
  const InitFromSpec& init = job.checkpoint.init_from;
  ASSIGN_OR_RETURN(const WeightFile file, OpenWeights(files, init.path));
  Matching matching{file, WantedOf(variables, job, file), {}, {}};
  ASSIGN_OR_RETURN(matching.matches, MatchInitFrom(file, job, variables));
  for (const proto::VariableLayout& variable : variables) {
    if (!variable.has_dynamic()) matching.layouts[variable.name()] = &variable;
  }
  std::vector<TrainedVariable> trained;
  for (const WeightMatch& match : matching.matches.matched) {
    const proto::VariableLayout& variable = matching.LayoutOf(match);
    ASSIGN_OR_RETURN(const Tensor value,
                     ReadMatch(file, match, static_cast<DType>(variable.dtype())));
    // Values are set through PsControl, because ClusterCoordinator::Assign would wait for a
    // recovery checkpoint, and there is none before the job's progress is saved with each.
    const absl::Status set =
        ps.Change(variable, {proto::CHANGE_SET, std::nullopt, value}, ps.NextUpdate());
    RETURN_IF_ERROR(Annotate(set, absl::StrCat("variable ", variable.name(), " of ", file.path)));
    if (IsTrained(variable)) trained.push_back({&variable, match});
  }
  LogMatches(file, matching.matches);
  OptimizerStateSearch search;
  if (!init.weights_only) {
    ASSIGN_OR_RETURN(search, FindState(matching, job, trained));
    if (!search.state.has_value()) LogAnew(file, search.why_not);
  }
  const OptimizerState state = search.state.value_or(OptimizerState());
  RETURN_IF_ERROR(SetSlots(file, trained, state, ps));
  if (search.state.has_value()) {
    Log(LogLevel::kInfo, "optimizer_state_taken",
        {{"file", file.path}, {"steps", state.step}, {"slots", state.slots.size()}});
  }
  return state.step;
}

}  // namespace cohort
