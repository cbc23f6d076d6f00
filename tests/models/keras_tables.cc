#include "tests/models/keras_tables.h"

#include <map>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "common/base/check.h"
#include "coordinator/losses/loss_table.h"
#include "coordinator/metrics/metric_table.h"
#include "tests/models/golden_case.h"
#include "tests/models/keras_coverage.h"
#include "tests/models/run_config.h"

namespace cohort {
namespace {

constexpr absl::string_view kBegin = "<!-- made: begin -->\n";
constexpr absl::string_view kEnd = "<!-- made: end -->\n";

// Upper bound of the columns of a line of a list.
constexpr size_t kColumns = 120;

struct Kind {
  const char* kind;
  const char* title;  // of its tables
};
constexpr Kind kKinds[] = {
    {"layer", "Layers"},
    {"cell", "Cells"},
    {"loss", "Losses"},
    {"metric", "Metrics"},
    {"optimizer", "Optimizers"},
    {"schedule", "Schedules of the learning rate"},
    {"initializer", "Initializers"},
    {"regularizer", "Regularizers"},
    {"constraint", "Constraints"},
};

std::string Code(absl::string_view text) { return absl::StrCat("`", text, "`"); }

// Returns a table's head; the first row names the columns.
std::string Head(const std::vector<std::string>& columns) {
  return absl::StrCat("| ", absl::StrJoin(columns, " | "), " |\n|",
                      absl::StrJoin(std::vector<std::string>(columns.size(), "---"), "|"), "|\n");
}

std::string Row(const std::vector<std::string>& cells) {
  return absl::StrCat("| ", absl::StrJoin(cells, " | "), " |\n");
}

std::string Title(const char* title) { return absl::StrCat("\n### ", title, "\n\n"); }

// Returns "12", "12, 2 open", "2 open", or the test if there is no case.
std::string CountText(const ClassCases& cases, const std::string& test) {
  std::vector<std::string> parts;
  if (cases.passed > 0) parts.push_back(absl::StrCat(cases.passed));
  if (cases.not_yet > 0) parts.push_back(absl::StrCat(cases.not_yet, " open"));
  if (!parts.empty()) return absl::StrJoin(parts, ", ");
  return test.empty() ? "–" : Code(test);
}

std::vector<std::string> CountTexts(const std::vector<ClassCases>& cases, const std::string& test) {
  std::vector<std::string> texts;
  for (const ClassCases& one : cases) texts.push_back(CountText(one, test));
  return texts;
}

// Returns what covers an option in one version.
std::string OptionText(const OptionCoverage& option, size_t version) {
  const OptionCases& cases = option.cases[version];
  if (option.rule == OptionRule::kOneValue) return absl::StrCat("only ", Code(option.value));
  if (option.rule == OptionRule::kIgnored) return "any value, no effect";
  if (!cases.names.empty()) {
    const size_t more = cases.names.size() - 1;
    return absl::StrCat(Code(cases.names.front()), more == 0 ? "" : absl::StrCat(" +", more));
  }
  if (!option.test.empty()) return Code(option.test);
  return option.IsOpenIn(version) ? "open" : "–";
}

std::string OptionRow(const std::string& class_name, const OptionCoverage& option) {
  std::vector<std::string> cells = {class_name, Code(option.key)};
  for (size_t i = 0; i < option.cases.size(); ++i) cells.push_back(OptionText(option, i));
  return Row(cells);
}

// Returns the keys of the options with a rule, in code.
std::string KeysWith(OptionRule rule, const std::vector<OptionCoverage>& options) {
  std::vector<std::string> keys;
  for (const OptionCoverage& option : options) {
    if (option.rule != rule) continue;
    keys.push_back(Code(option.key));
    if (rule == OptionRule::kOneValue) absl::StrAppend(&keys.back(), " ", option.value);
  }
  return absl::StrJoin(keys, ", ");
}

// Returns the options of a class in one cell: those that it takes, and those that it takes with one
// value.
std::string OptionsText(const std::vector<OptionCoverage>& options) {
  std::string text = KeysWith(OptionRule::kTaken, options);
  const std::string one_value = KeysWith(OptionRule::kOneValue, options);
  if (one_value.empty()) return text;
  return absl::StrCat(text, text.empty() ? "" : "; ", "only ", one_value);
}

std::vector<std::string> Columns(const char* first) {
  return {first, "Options", "Keras 2.15", "Keras 3.15"};
}

std::string ClassTable(const KindCoverage& coverage, const char* first) {
  std::string text = Head(Columns(first));
  for (const ClassCoverage& one : coverage.classes) {
    std::vector<std::string> cells = {Code(one.name), OptionsText(one.options)};
    if (one.depends_on_version) absl::StrAppend(&cells[0], " †");
    for (std::string& count : CountTexts(one.cases, one.test)) cells.push_back(std::move(count));
    text += Row(cells);
  }
  return text;
}

// Returns the names of a row of losses or metrics with its marks.
template <typename TableRow>
std::string NamesText(const TableRow& row, bool differs) {
  std::vector<std::string> names;
  for (const std::string& name : row.names) names.push_back(Code(name));
  return absl::StrCat(Code(row.class_name), differs ? " †" : "", row.only_keras3 ? " (3)" : "",
                      names.empty() ? "" : ": ", absl::StrJoin(names, ", "));
}

std::string LossTableText(const KindCoverage& coverage) {
  std::string text = Head(Columns("Loss: names"));
  for (const ClassCoverage& one : coverage.classes) {
    const LossRow& row = *FindLossClass(one.name);
    std::vector<std::string> cells = {NamesText(row, row.differs_by_version),
                                      OptionsText(one.options)};
    for (std::string& count : CountTexts(one.cases, one.test)) cells.push_back(std::move(count));
    text += Row(cells);
  }
  return text;
}

std::string MetricTableText(const KindCoverage& coverage) {
  std::string text = Head(Columns("Metric: names"));
  for (const ClassCoverage& one : coverage.classes) {
    std::vector<std::string> cells = {NamesText(*FindMetricClass(one.name), false),
                                      OptionsText(one.options)};
    for (std::string& count : CountTexts(one.cases, one.test)) cells.push_back(std::move(count));
    text += Row(cells);
  }
  return text;
}

std::string ActivationTable() {
  std::string text = Head({"Activation", "Keras 2.15", "Keras 3.15"});
  for (const auto& [name, cases] : ActivationCases()) {
    std::vector<std::string> cells = {Code(name)};
    for (std::string& count : CountTexts(cases, "")) cells.push_back(std::move(count));
    text += Row(cells);
  }
  return text;
}

// Returns names in code, in lines of at most kColumns columns.
std::string Wrapped(const std::vector<std::string>& names) {
  std::string text;
  size_t column = 0;
  for (size_t i = 0; i < names.size(); ++i) {
    const std::string word = absl::StrCat(Code(names[i]), i + 1 == names.size() ? "" : ",");
    if (column + 1 + word.size() > kColumns) {
      text += "\n";
      column = 0;
    }
    absl::StrAppend(&text, column == 0 ? "" : " ", word);
    column += word.size() + 1;
  }
  return text + "\n";
}

// Returns the configurations of each version that pass, and the names of those that do not.
std::string ConfigTable() {
  const auto configs = ReadConfigs();
  COHORT_CHECK(configs.ok(), "the configurations can be read");
  const std::set<std::string> not_yet = ConfigsNotYet();
  std::vector<std::pair<std::string, int>> passed;  // by version, in the order of the pack
  std::map<std::string, std::vector<std::string>> open;
  for (const KerasConfig& one : *configs) {
    if (passed.empty() || passed.back().first != one.keras) passed.emplace_back(one.keras, 0);
    if (not_yet.contains(absl::StrCat(one.keras, " ", one.name))) {
      open[one.keras].push_back(Code(one.name));
    } else {
      ++passed.back().second;
    }
  }
  std::string text = Head({"Keras", "Models that give its outputs", "Open"});
  for (const auto& [version, count] : passed) {
    text += Row({version, absl::StrCat(count), absl::StrJoin(open[version], ", ")});
  }
  return text;
}

std::string Overview(const std::vector<KindCoverage>& kinds) {
  std::string text;
  for (size_t i = 0; i < kinds.size(); ++i) {
    const std::string kind = kKinds[i].kind;
    if (kinds[i].classes.empty()) continue;
    text += Title(kKinds[i].title);
    if (!kinds[i].common.empty()) {
      absl::StrAppend(&text, "Every class takes ", OptionsText(kinds[i].common), ".\n\n");
    }
    if (kind == "loss") {
      text += LossTableText(kinds[i]);
    } else if (kind == "metric") {
      text += MetricTableText(kinds[i]);
    } else {
      text += ClassTable(kinds[i], "Class");
    }
    if (kind == "cell") absl::StrAppend(&text, Title("Activations"), ActivationTable());
  }
  absl::StrAppend(&text, Title("Functions as layers"), Wrapped(OperationClasses()));
  absl::StrAppend(&text, Title("Whole models"), ConfigTable());
  return text;
}

std::string OptionTables(const std::vector<KindCoverage>& kinds) {
  std::string text;
  for (size_t i = 0; i < kinds.size(); ++i) {
    if (kinds[i].classes.empty()) continue;
    absl::StrAppend(&text, Title(kKinds[i].title),
                    Head({"Class", "Option", "Keras 2.15", "Keras 3.15"}));
    for (const OptionCoverage& option : kinds[i].common) text += OptionRow("every one", option);
    for (const ClassCoverage& one : kinds[i].classes) {
      for (const OptionCoverage& option : one.options) text += OptionRow(Code(one.name), option);
    }
  }
  return text;
}

}  // namespace

std::vector<std::string> OpenOptions() {
  std::vector<std::string> open;
  const auto add = [&](const std::string& class_name, const OptionCoverage& option) {
    for (size_t i = 0; i < option.cases.size(); ++i) {
      if (!option.IsOpenIn(i)) continue;
      open.push_back(absl::StrCat(ModelCaseVersions()[i], " ", class_name, ".", option.key));
    }
  };
  for (const Kind& one : kKinds) {
    const KindCoverage kind = CoverageOf(one.kind);
    for (const OptionCoverage& option : kind.common) add(absl::StrCat("every ", one.kind), option);
    for (const ClassCoverage& of : kind.classes) {
      for (const OptionCoverage& option : of.options) add(of.name, option);
    }
  }
  return open;
}

std::vector<MadeDocument> KerasDocuments() {
  std::vector<KindCoverage> kinds;
  for (const Kind& one : kKinds) kinds.push_back(CoverageOf(one.kind));
  return {{"docs/KERAS.md", Overview(kinds)}, {"docs/KERAS_OPTIONS.md", OptionTables(kinds)}};
}

absl::StatusOr<std::string> WithMadePart(const MadeDocument& document, const std::string& text) {
  const std::vector<std::string> ahead = absl::StrSplit(text, kBegin);
  if (ahead.size() == 2) {
    const std::vector<std::string> behind = absl::StrSplit(ahead[1], kEnd);
    if (behind.size() == 2) {
      return absl::StrCat(ahead[0], kBegin, document.made, kEnd, behind[1]);
    }
  }
  return absl::InvalidArgumentError(
      absl::StrCat(document.path, ": needs the lines '", kBegin.substr(0, kBegin.size() - 1),
                   "' and '", kEnd.substr(0, kEnd.size() - 1), "' once each, in this order"));
}

}  // namespace cohort
