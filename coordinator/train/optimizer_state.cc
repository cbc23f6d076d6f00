#include "coordinator/train/optimizer_state.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/strip.h"
#include "common/base/excerpt.h"
#include "common/base/status.h"
#include "common/checkpoint/bundle.h"
#include "common/checkpoint/tf1_slots.h"
#include "common/program/aggregation.h"
#include "common/program/update_rule.h"
#include "coordinator/train/keras_slots.h"

namespace cohort {

namespace {

constexpr int64_t kStepsMax = int64_t{1} << 53;  // all whole numbers up to this one are doubles
constexpr char kAttributes[] = "/.ATTRIBUTES/";
// The name of the counter of steps in files of TensorFlow 1 and Cohort.
constexpr char kGlobalStep[] = "global_step";

// A state that was found, without its number of steps, and the entries from which that number
// follows.
struct Found {
  std::vector<FoundSlot> slots;
  std::optional<size_t> counter;  // entry with the number of steps
  // Entry with beta_2 to the power of the steps; preferred to `counter`.
  std::optional<size_t> power;
  // True: there is no state without a counter; false: it then begins at step 0.
  bool needs_step = true;
};

// Returns the reason why a state is not taken, as an error. The searches below do not read values
// of the file, so all their errors are such reasons.
template <typename... Parts>
absl::Status Reason(const Parts&... parts) {
  return absl::NotFoundError(absl::StrCat(parts...));
}

bool IsScalar(const WeightEntry& entry) { return entry.shape.num_elements() == 1; }

bool IsCounter(const WeightEntry& entry) {
  return IsScalar(entry) && (entry.dtype == DType::kInt64 || entry.dtype == DType::kInt32);
}

// Returns whether a file may lack the slot, because the slot can begin in another way
// (OptimizerState::slots).
bool MayBeMissing(const std::string& slot) { return slot == kAverageSlot || slot == kLastStepSlot; }

// Returns whether a slot has an element for each element of its variable.
bool IsFull(const SlotSpec& slot) { return !slot.per_row && slot.without_dim == 0; }

bool IsMomentum(const KerasSlot& slot) { return slot.slot == "momentum"; }

// Searches one file for the state. Thread-compatible.
class Search {
 public:
  Search(const WeightFile& file, absl::Span<const TrainedVariable> variables,
         std::optional<double> rate)
      : file_(file), variables_(variables), rate_(rate), rule_(variables[0].layout->rule()) {
    for (size_t i = 0; i < file.entries.size(); ++i) {
      const WeightEntry& entry = file.entries[i];
      if (entry.dtype != DType::kUndefined) by_name_.emplace(entry.name, i);
      if (entry.role == WeightRole::kOptimizer) states_.push_back(i);
    }
  }

  absl::StatusOr<Found> Find() const {
    if (states_.empty()) return Reason("the file has no state of an optimizer");
    if (IsOf([](const WeightEntry& entry) {
          return absl::StrContains(entry.name, kSlotInfix) &&
                 !absl::StrContains(entry.name, kAttributes);
        })) {
      return FindCohort();
    }
    for (const TrainedVariable& variable : variables_) {
      if (variable.layout->rule().op() == rule_.op()) continue;
      return Reason("the job's optimizer updates its variables by several rules");
    }
    if (file_.kind == WeightFileKind::kKerasWeights ||
        file_.kind == WeightFileKind::kKerasArchive) {
      return FindNumbered();
    }
    const bool is_tf1 =
        file_.kind == WeightFileKind::kTensorFlowCheckpoint &&
        !IsOf([](const WeightEntry& entry) { return absl::StrContains(entry.name, kAttributes); });
    return is_tf1 ? FindTf1() : FindNamed();
  }

 private:
  // Returns whether `property` holds for any of the optimizer's values.
  template <typename Property>
  bool IsOf(Property property) const {
    return std::any_of(states_.begin(), states_.end(),
                       [&](size_t i) { return property(file_.entries[i]); });
  }

  std::optional<size_t> FindEntry(const std::string& name) const {
    const auto found = by_name_.find(name);
    if (found == by_name_.end()) return std::nullopt;
    return found->second;
  }
  std::optional<size_t> FindCounter(const std::string& name) const {
    const std::optional<size_t> entry = FindEntry(name);
    return entry.has_value() && IsCounter(file_.entries[*entry]) ? entry : std::nullopt;
  }
  const WeightEntry& WeightOf(size_t variable) const {
    return file_.entries[variables_[variable].match.entry];
  }
  std::vector<SlotSpec> SlotsOf(size_t variable) const {
    const auto rule = DescribeUpdateRule(variables_[variable].layout->rule());
    return rule.ok() ? rule->slots : std::vector<SlotSpec>();
  }

  // Takes a value for a slot of a variable, if it has the slot's shape.
  absl::Status Take(size_t variable, const SlotSpec& slot, size_t index, float factor,
                    Found& found) const {
    const WeightEntry& entry = file_.entries[index];
    const TrainedVariable& trained = variables_[variable];
    const bool turns = !trained.match.transpose.empty();
    const Shape expected =
        IsFull(slot) ? WeightOf(variable).shape : ShapeOfSlot(slot, ValueShape(*trained.layout));
    if (entry.shape != expected || (turns && !IsFull(slot))) {
      return Reason("'", Excerpt(entry.name), "' is ", entry.shape.ToString(), ", and the slot ",
                    slot.name, " of ", Excerpt(trained.layout->name()), " needs ",
                    expected.ToString(), turns ? ", transposed" : "");
    }
    found.slots.push_back({variable, slot.name, index, factor});
    return absl::OkStatus();
  }

  absl::Status Missing(size_t variable, const std::string& slot) const {
    return Reason("the file has no slot ", slot, " of the variable ",
                  Excerpt(variables_[variable].layout->name()), ", which ", rule_.op(), " needs");
  }

  // Returns the factor by which Keras's momentum is multiplied. Keras's momentum contains the
  // learning rate; a sum of gradients (momentum_of_gradients) does not.
  absl::StatusOr<float> MomentumOfKeras() const {
    const bool sums = rule_.op() == "sgd" && ParameterOf(rule_, "momentum_of_gradients") != 0;
    if (!sums) return 1.0F;
    if (rate_.has_value() && *rate_ > 0) return static_cast<float>(-1 / *rate_);
    return Reason(
        "Keras's momentum becomes a sum of gradients (momentum_of_gradients) only with a "
        "constant learning rate above 0");
  }
  absl::StatusOr<float> MomentumOfTf1(Tf1SlotValue value) const {
    if (value == Tf1SlotValue::kSame) return 1.0F;
    if (ParameterOf(rule_, "momentum_of_gradients") != 0) return 1.0F;
    if (rate_.has_value()) return static_cast<float>(-*rate_);
    return Reason(
        "the sum of gradients of TensorFlow 1 becomes Keras's momentum only with a "
        "constant learning rate (or momentum_of_gradients)");
  }

  absl::StatusOr<Found> FindCohort() const;
  absl::StatusOr<Found> FindTf1() const;
  absl::StatusOr<Found> FindNamed() const;
  absl::StatusOr<Found> FindNumbered() const;
  absl::Status TakeTf1(size_t variable, const SlotSpec& slot, const std::vector<Tf1Slot>& known,
                       Found& found) const;
  absl::Status TakeNumbered(const std::vector<std::vector<KerasSlot>>& groups, size_t first,
                            const std::vector<size_t>& entries, Found& found) const;

  const WeightFile& file_;
  const absl::Span<const TrainedVariable> variables_;
  const std::optional<double> rate_;
  const proto::UpdateRule& rule_;
  std::map<std::string, size_t> by_name_;  // entries that can be read
  std::vector<size_t> states_;             // entries of the optimizer
};

// Finds the state in a checkpoint of Cohort, where each slot has the name that the parameter
// servers give it.
absl::StatusOr<Found> Search::FindCohort() const {
  Found found;
  for (size_t i = 0; i < variables_.size(); ++i) {
    for (const SlotSpec& slot : SlotsOf(i)) {
      const std::string name = absl::StrCat(WeightOf(i).name, kSlotInfix,
                                            variables_[i].layout->rule().op(), "/", slot.name);
      const std::optional<size_t> entry = FindEntry(name);
      if (entry.has_value()) {
        RETURN_IF_ERROR(Take(i, slot, *entry, 1, found));
      } else if (!MayBeMissing(slot.name)) {
        return Missing(i, slot.name);
      }
    }
  }
  found.counter = FindCounter(kGlobalStep);
  return found;
}

absl::Status Search::TakeTf1(size_t variable, const SlotSpec& slot,
                             const std::vector<Tf1Slot>& known, Found& found) const {
  const std::string& name = WeightOf(variable).name;
  if (slot.name == kAverageSlot) {
    const std::optional<size_t> entry = FindEntry(absl::StrCat(name, "/ExponentialMovingAverage"));
    return entry.has_value() ? Take(variable, slot, *entry, 1, found) : absl::OkStatus();
  }
  if (MayBeMissing(slot.name)) return absl::OkStatus();
  const auto one = std::find_if(known.begin(), known.end(),
                                [&](const Tf1Slot& each) { return each.slot == slot.name; });
  if (one == known.end()) {
    return Reason(rule_.op(), " with the slot ", slot.name, " is not one of TensorFlow 1");
  }
  const std::optional<size_t> entry = FindEntry(absl::StrCat(name, one->suffix));
  if (!entry.has_value()) return Missing(variable, slot.name);
  ASSIGN_OR_RETURN(const float factor, MomentumOfTf1(one->value));
  return Take(variable, slot, *entry, factor, found);
}

absl::StatusOr<Found> Search::FindTf1() const {
  const bool centered = rule_.op() == "rmsprop" && ParameterOf(rule_, "centered") != 0;
  const std::vector<Tf1Slot> known = Tf1SlotsOf({rule_.op(), centered});
  Found found;
  for (size_t i = 0; i < variables_.size(); ++i) {
    for (const SlotSpec& slot : SlotsOf(i)) RETURN_IF_ERROR(TakeTf1(i, slot, known, found));
    if (known.empty()) continue;
    // A slot that the rule does not have belongs to a second optimizer or to a centered RMSProp, so
    // the numbers of the known slots would mean something else.
    const std::string further = absl::StrCat(WeightOf(i).name, known[0].suffix, "_", known.size());
    if (!FindEntry(further).has_value()) continue;
    return Reason("'", Excerpt(further), "' is one slot more than ", rule_.op(),
                  centered ? " (centered)" : "",
                  " has; the file is of another variant, or of several optimizers");
  }
  found.counter = FindCounter(kGlobalStep);
  found.needs_step = rule_.op() == "adam";
  const std::optional<size_t> power = FindEntry("beta2_power");
  if (rule_.op() == "adam" && power.has_value() && IsScalar(file_.entries[*power])) {
    found.power = power;
  }
  return found;
}

// Returns the class of the optimizer that the file's model was compiled with; "" if the file does
// not say it.
std::string CompiledOptimizer(const WeightFileTexts& texts) {
  const auto parsed = [](const std::string& text) {
    return nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
  };
  const auto at = [](const nlohmann::json& value, const char* key) {
    return value.is_object() ? value.value(key, nlohmann::json()) : nlohmann::json();
  };
  nlohmann::json optimizer = at(parsed(texts.training_config), "optimizer_config");
  if (optimizer.is_null()) {
    optimizer = at(at(parsed(texts.config), "compile_config"), "optimizer");
  }
  const nlohmann::json name = optimizer.is_string() ? optimizer : at(optimizer, "class_name");
  if (!name.is_string()) return "";
  // Keras 2.15 writes its own classes with this prefix in .h5 files.
  return std::string(absl::StripPrefix(name.get<std::string>(), "Custom>"));
}

absl::Status CheckSameOptimizer(const std::string& theirs, const proto::UpdateRule& rule) {
  if (OpOfKerasOptimizer(theirs) == rule.op()) return absl::OkStatus();
  return Reason("the file's optimizer is '", Excerpt(theirs), "', the job's rule is ", rule.op());
}

// The optimizer's values by the rest of their names, behind the optimizer's name.
struct NamedStates {
  std::set<std::string> optimizers;       // names of optimizers
  std::map<std::string, size_t> by_rest;  // index of the entry by the rest of its name
  std::set<std::string> twice;            // rests of names that occur more than once
  std::optional<size_t> Find(const std::string& rest) const {
    const auto found = by_rest.find(rest);
    if (found == by_rest.end() || twice.contains(rest)) return std::nullopt;
    return found->second;
  }
};

NamedStates NamesIn(const WeightFile& file, const std::vector<size_t>& states) {
  NamedStates names;
  for (const size_t i : states) {
    if (file.entries[i].dtype == DType::kUndefined) continue;
    absl::string_view rest = absl::StripPrefix(file.entries[i].variable, "training/");
    if (const size_t end = rest.find('/'); end != absl::string_view::npos) {
      names.optimizers.emplace(rest.substr(0, end));
      rest.remove_prefix(end + 1);
    }
    if (!names.by_rest.emplace(rest, i).second) names.twice.emplace(rest);
  }
  return names;
}

std::optional<size_t> FindNamedSlot(const NamedStates& names, const KerasSlot& slot,
                                    const std::string& variable) {
  std::optional<size_t> entry;
  if (!slot.keras2.empty()) entry = names.Find(absl::StrCat(slot.keras2, "/", variable));
  if (!entry.has_value()) {
    const std::string flat = absl::StrReplaceAll(variable, {{"/", "_"}});
    entry = names.Find(absl::StrCat(flat, "_", slot.keras3));
  }
  if (!entry.has_value() && !slot.legacy.empty()) {
    entry = names.Find(absl::StrCat(variable, "/", slot.legacy));
  }
  return entry;
}

absl::StatusOr<Found> Search::FindNamed() const {
  const NamedStates names = NamesIn(file_, states_);
  const auto groups = KerasSlotsOf(rule_);
  if (!groups.has_value()) {
    return Reason("what Keras saves of the slots of ", rule_.op(), " is not known here");
  }
  if (names.optimizers.size() > 1) {
    return Reason("the file has several optimizers: '", Excerpt(*names.optimizers.begin()),
                  "' and '", Excerpt(*names.optimizers.rbegin()), "'");
  }
  const std::string compiled = CompiledOptimizer(file_.texts);
  if (!compiled.empty() || !names.optimizers.empty()) {
    RETURN_IF_ERROR(
        CheckSameOptimizer(compiled.empty() ? *names.optimizers.begin() : compiled, rule_));
  }
  ASSIGN_OR_RETURN(const float factor, MomentumOfKeras());
  Found found;
  for (size_t i = 0; i < variables_.size(); ++i) {
    for (const auto& group : *groups) {
      for (const KerasSlot& slot : group) {
        const std::optional<size_t> entry = FindNamedSlot(names, slot, WeightOf(i).variable);
        if (entry.has_value()) {
          RETURN_IF_ERROR(Take(i, {slot.slot}, *entry, IsMomentum(slot) ? factor : 1, found));
        } else if (!MayBeMissing(slot.slot)) {
          return Missing(i, slot.slot);
        }
      }
    }
  }
  for (const char* name : {"iteration", "iter", "iterations"}) {
    const std::optional<size_t> entry = names.Find(name);
    if (entry.has_value() && IsCounter(file_.entries[*entry])) found.counter = entry;
  }
  return found;
}

absl::Status Search::TakeNumbered(const std::vector<std::vector<KerasSlot>>& groups, size_t first,
                                  const std::vector<size_t>& entries, Found& found) const {
  ASSIGN_OR_RETURN(const float factor, MomentumOfKeras());
  size_t at = first;
  for (const auto& group : groups) {
    for (size_t i = 0; i < variables_.size(); ++i) {
      for (const KerasSlot& slot : group) {
        RETURN_IF_ERROR(Take(i, {slot.slot}, entries[at++], IsMomentum(slot) ? factor : 1, found));
      }
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<Found> Search::FindNumbered() const {
  auto groups = KerasSlotsOf(rule_);
  if (!groups.has_value()) {
    return Reason("what Keras saves of the slots of ", rule_.op(), " is not known here");
  }
  // If the file does not say the class of its optimizer, it is assumed to be the job's, as Keras's
  // load_weights does.
  const std::string compiled = CompiledOptimizer(file_.texts);
  if (!compiled.empty()) RETURN_IF_ERROR(CheckSameOptimizer(compiled, rule_));
  std::vector<size_t> entries;
  for (const size_t i : states_) {
    if (file_.entries[i].group == "optimizer" && file_.entries[i].dtype != DType::kUndefined) {
      entries.push_back(i);
    }
  }
  std::sort(entries.begin(), entries.end(), [&](size_t a, size_t b) {
    return file_.entries[a].position < file_.entries[b].position;
  });
  if (entries.empty() || !IsCounter(file_.entries[entries[0]])) {
    return Reason("the optimizer's first value is not the number of its steps");
  }
  Found found;
  found.counter = entries[0];
  size_t slots = 0;
  for (const auto& group : *groups) slots += group.size() * variables_.size();
  if (slots == 0) return found;
  // Keras 3 keeps the learning rate behind the step, and Nadam's product behind the slots.
  const size_t products = rule_.op() == "nadam" && entries.size() > slots + 1 ? 1 : 0;
  const bool has_rate =
      entries.size() == slots + products + 2 && IsScalar(file_.entries[entries[1]]);
  if (has_rate || entries.size() == slots + products + 1) {
    RETURN_IF_ERROR(TakeNumbered(*groups, has_rate ? 2 : 1, entries, found));
    return found;
  }
  return Reason("the optimizer has ", entries.size(), " values, and ", rule_.op(), " of ",
                variables_.size(), " trained variables has ", slots,
                " slots beside the step and the learning rate");
}

// Reads a whole number that can be a count of steps; returns nothing for any other value.
absl::StatusOr<std::optional<int64_t>> ReadCounter(const WeightFile& file, size_t entry) {
  ASSIGN_OR_RETURN(const Tensor value, file.source->Read(entry));
  if (value.num_elements() != 1) return std::nullopt;
  int64_t count = -1;
  if (value.dtype() == DType::kInt64) count = value.span<int64_t>()[0];
  if (value.dtype() == DType::kInt32) count = value.span<int32_t>()[0];
  if (count < 0 || count > kStepsMax) return std::nullopt;
  return count;
}

// Returns the number of steps of the state, or nothing if the file's value cannot be one.
absl::StatusOr<std::optional<int64_t>> ReadStep(const WeightFile& file, const Found& found,
                                                const proto::UpdateRule& rule) {
  if (found.power.has_value()) {
    ASSIGN_OR_RETURN(const Tensor value,
                     ReadMatch(file, WeightMatch{0, *found.power, {}}, DType::kFloat32));
    // TensorFlow computes the power of beta_2 in float32.
    const float beta_2 = static_cast<float>(ParameterOf(rule, "beta_2"));
    const std::optional<int64_t> steps =
        value.num_elements() == 1 ? Tf1StepsOfPower(value.span<float>()[0], beta_2) : std::nullopt;
    if (steps.has_value()) return steps;
  }
  if (found.counter.has_value()) return ReadCounter(file, *found.counter);
  if (found.needs_step) return std::nullopt;
  return 0;
}

}  // namespace

absl::StatusOr<OptimizerStateSearch> FindOptimizerState(const WeightFile& file,
                                                        absl::Span<const TrainedVariable> variables,
                                                        std::optional<double> constant_rate) {
  OptimizerStateSearch result;
  if (variables.empty()) {
    result.why_not = "the job trains no variable that the file may have";
    return result;
  }
  const absl::StatusOr<Found> found = Search(file, variables, constant_rate).Find();
  if (!found.ok()) {
    result.why_not = std::string(found.status().message());
    return result;
  }
  ASSIGN_OR_RETURN(const std::optional<int64_t> step,
                   ReadStep(file, *found, variables[0].layout->rule()));
  if (step.has_value()) {
    result.state = OptimizerState{*step, found->slots};
  } else {
    result.why_not = "the file does not say how many steps the optimizer has made";
  }
  return result;
}

absl::StatusOr<Tensor> ReadSlot(const WeightFile& file, const TrainedVariable& variable,
                                const FoundSlot& slot) {
  ASSIGN_OR_RETURN(Tensor value,
                   ReadMatch(file, {variable.match.wanted, slot.entry, variable.match.transpose},
                             DType::kFloat32));
  if (slot.factor == 1) return value;
  // The values are scaled in a copy, because `value` may share memory with the file's source.
  Tensor scaled(DType::kFloat32, value.shape());
  const absl::Span<const float> from = value.span<float>();
  for (size_t i = 0; i < from.size(); ++i) scaled.mutable_data<float>()[i] = from[i] * slot.factor;
  return scaled;
}

}  // namespace cohort
