#include "coordinator/train/init_weights.h"

#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/base/excerpt.h"
#include "common/base/log.h"
#include "common/base/status.h"
#include "common/formats/weights/match_weights.h"
#include "common/formats/weights/open_weights.h"
#include "common/program/aggregation.h"
#include "common/program/update_rule.h"

namespace cohort {

namespace {

constexpr size_t kNamesMax = 8;  // in a line of the log

// Returns the first names, and how many there are besides.
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

// Returns the layer of a variable: the longest part of its name that is a layer of the file, since
// the file may have the weights of a wrapper or of a nested model under the outer layer alone.
std::string LayerOf(const std::string& variable, const std::set<std::string>& layers) {
  const size_t end = variable.rfind('/');
  for (size_t at = end; at != std::string::npos && at > 0; at = variable.rfind('/', at - 1)) {
    if (layers.contains(variable.substr(0, at))) return variable.substr(0, at);
  }
  return variable.substr(0, end);
}

// Returns the variables that may have a value. Rows of dynamic tables have no place in such files.
std::vector<WantedWeight> WantedOf(absl::Span<const proto::VariableLayout> variables,
                                   const WeightFile& file) {
  std::set<std::string> layers;
  for (const WeightEntry& entry : file.entries) layers.insert(entry.layer);
  std::vector<WantedWeight> wanted;
  std::map<std::string, int> positions;
  for (const proto::VariableLayout& variable : variables) {
    if (variable.has_dynamic()) continue;
    WantedWeight one;
    one.name = variable.name();
    one.shape = ValueShape(variable);
    one.layer = LayerOf(one.name, layers);
    one.position = positions[one.layer]++;
    wanted.push_back(std::move(one));
  }
  return wanted;
}

// Refuses variables with a moving average: it has begun with the value from before, which an
// assignment does not change.
absl::Status CheckNoAverages(absl::Span<const proto::VariableLayout> variables) {
  for (const proto::VariableLayout& variable : variables) {
    ASSIGN_OR_RETURN(const UpdateRuleSpec rule, DescribeUpdateRule(variable.rule()));
    if (rule.slots.empty() || !rule.slots.back().starts_as_value) continue;
    return absl::InvalidArgumentError(
        "use_ema is true, and the averages would begin with other values than those of the file; "
        "save a checkpoint without use_ema and go on from it with checkpoint.restore and "
        "weights_only");
  }
  return absl::OkStatus();
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

void LogMatches(const WeightFile& file, const InitFromSpec& init, const WeightMatches& matches) {
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
  int64_t of_optimizer = 0;
  for (const WeightEntry& entry : file.entries) {
    if (entry.role == WeightRole::kOptimizer) ++of_optimizer;
  }
  if (of_optimizer == 0 || init.weights_only) return;
  Log(LogLevel::kWarning, "optimizer_state_not_taken",
      {{"file", file.path},
       {"values", of_optimizer},
       {"effect", "the optimizer begins anew"},
       {"remedy", "set checkpoint.init_from.weights_only to true if that is meant"}});
}

}  // namespace

absl::StatusOr<WeightMatches> MatchInitFrom(const WeightFile& file, const InitFromSpec& init,
                                            absl::Span<const proto::VariableLayout> variables) {
  const std::vector<WantedWeight> wanted = WantedOf(variables, file);
  ASSIGN_OR_RETURN(WeightMatches matches, MatchWeights(wanted, file, RenamesOf(init)));
  if (!matches.mismatched.empty() && !init.skip_mismatch) {
    return absl::InvalidArgumentError(absl::StrCat(
        file.path, " has other shapes: ", absl::StrJoin(matches.mismatched, "; "),
        "; name a file of this model, map the variables (with transpose), or set skip_mismatch to "
        "begin them as new"));
  }
  if (matches.matched.empty() && matches.mismatched.empty()) {
    return absl::InvalidArgumentError(absl::StrCat(
        file.path, " has a value for none of the model's variables (", Names(matches.missing),
        "); it has ", Names(matches.left_over), ": map the variables' names to them"));
  }
  return matches;
}

absl::Status CheckInitFrom(FileSystem& files, const InitFromSpec& init,
                           absl::Span<const proto::VariableLayout> variables) {
  RETURN_IF_ERROR(CheckNoAverages(variables));
  ASSIGN_OR_RETURN(const WeightFile file, OpenWeights(files, init.path));
  if (variables.empty()) return absl::OkStatus();
  return MatchInitFrom(file, init, variables).status();
}

absl::Status InitWeights(FileSystem& files, const InitFromSpec& init,
                         absl::Span<const proto::VariableLayout> variables, PsControl& ps) {
  RETURN_IF_ERROR(CheckNoAverages(variables));
  ASSIGN_OR_RETURN(const WeightFile file, OpenWeights(files, init.path));
  const std::vector<WantedWeight> wanted = WantedOf(variables, file);
  ASSIGN_OR_RETURN(const WeightMatches matches, MatchInitFrom(file, init, variables));
  std::map<std::string, const proto::VariableLayout*> layouts;
  for (const proto::VariableLayout& variable : variables) layouts[variable.name()] = &variable;
  for (const WeightMatch& match : matches.matched) {
    const proto::VariableLayout& variable = *layouts.at(wanted[match.wanted].name);
    ASSIGN_OR_RETURN(const Tensor value,
                     ReadMatch(file, match, static_cast<DType>(variable.dtype())));
    // ClusterCoordinator::Assign would wait for a recovery checkpoint, and there is none before the
    // caller has the job's progress saved with each.
    const absl::Status set =
        ps.Change(variable, {proto::CHANGE_SET, std::nullopt, value}, ps.NextUpdate());
    RETURN_IF_ERROR(Annotate(set, absl::StrCat("variable ", variable.name(), " of ", file.path)));
  }
  LogMatches(file, init, matches);
  return absl::OkStatus();
}

}  // namespace cohort
