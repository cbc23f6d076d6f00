#include "tests/models/keras_coverage.h"

#include <algorithm>
#include <fstream>
#include <optional>
#include <set>
#include <sstream>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "coordinator/json/json_reader.h"
#include "coordinator/layers/activation.h"
#include "coordinator/metrics/metric_table.h"
#include "tests/models/expectations.h"

namespace cohort {
namespace {

using nlohmann::json;

// What the coverage needs of a golden case: the arrays are left out.
struct CaseConfig {
  size_t version = 0;  // its position in ModelCaseVersions()
  std::string name, kind, class_name;
  json config;
  bool passes = false;
};

// Returns the class of a case: for a metric that wraps a function, that of the function.
std::string ClassOf(const ModelCase& one) {
  if (one.kind != "metric" || one.class_name != "MeanMetricWrapper") return one.class_name;
  const std::optional<std::string> function = FunctionName(one.json["config"]["fn"]);
  const MetricRow* const row = FindMetricFunction(function.value_or(""));
  return row == nullptr ? one.class_name : row->class_name;
}

const std::vector<CaseConfig>& AllCases() {
  static const auto* const kCases = [] {
    auto* const all = new std::vector<CaseConfig>();
    const std::vector<std::string>& versions = ModelCaseVersions();
    for (size_t version = 0; version < versions.size(); ++version) {
      for (const std::string& family : ModelCaseFamilies()) {
        const CaseExpectations expectations(family);
        const auto cases = ReadModelCases(versions[version], family);
        COHORT_CHECK(cases.ok(), "the golden cases can be read");
        for (const ModelCase& one : *cases) {
          if (expectations.IsRefused(one)) continue;
          all->push_back({version, one.name, one.kind, ClassOf(one), one.json["config"],
                          !expectations.IsNotYet(one)});
        }
      }
    }
    return all;
  }();
  return *kCases;
}

// Appends the configs of all forms of a class within a config.
void FindForms(const json& value, const std::string& class_name, std::vector<json>& found) {
  if (!value.is_structured()) return;
  const bool is_form = value.is_object() && value.contains("config") &&
                       value.value("class_name", json()) == class_name;
  if (is_form) found.push_back(value["config"]);
  for (const json& inner : value) FindForms(inner, class_name, found);
}

// Returns the configs of a class: those of its own cases, or, of a cell, those within layers.
std::vector<CaseConfig> CasesOf(const ProbedClass& probed) {
  std::vector<CaseConfig> cases;
  for (const CaseConfig& one : AllCases()) {
    if (probed.kind != "cell") {
      if (one.kind == probed.kind && one.class_name == probed.name) cases.push_back(one);
      continue;
    }
    std::vector<json> forms;
    if (one.kind == "layer") FindForms(one.config, probed.name, forms);
    for (json& form : forms) {
      CaseConfig inner = one;
      inner.config = std::move(form);
      cases.push_back(std::move(inner));
    }
  }
  return cases;
}

// Sets the rule by what the reader said of a value that no key may have.
void SetRule(absl::string_view message, OptionCoverage& option) {
  constexpr absl::string_view kRefused = "which is not supported; leave it out";
  constexpr absl::string_view kOr = " or give ";
  option.rule = OptionRule::kTaken;
  const size_t refused = message.find(kRefused);
  if (refused == absl::string_view::npos) return;
  option.rule = OptionRule::kOneValue;
  const absl::string_view rest = message.substr(refused + kRefused.size());
  option.value = std::string(absl::StartsWith(rest, kOr) ? rest.substr(kOr.size()) : "null");
}

// Finds the coverage of one class. Lives for one call of CoverageOf. Thread-compatible.
class ClassProbe {
 public:
  explicit ClassProbe(const ProbedClass& probed) : probed_(probed), cases_(CasesOf(probed)) {}

  ClassCoverage Run() {
    ClassCoverage coverage;
    coverage.name = probed_.name;
    coverage.cases.resize(ModelCaseVersions().size());
    for (const CaseConfig& one : cases_) {
      ++(one.passes ? coverage.cases[one.version].passed : coverage.cases[one.version].not_yet);
      coverage.depends_on_version |= Read(one.config, one.version).depends_on_version;
    }
    for (const std::string& key : Keys()) coverage.options.push_back(Option(key));
    AddCases(coverage);
    return coverage;
  }

 private:
  ConfigReading Read(const json& config, size_t version) const {
    return probed_.read(config, ModelCaseVersions()[version]);
  }

  // Returns every key that a reader asked for. Some are asked for only beside others.
  std::set<std::string> Keys() const {
    std::set<std::string> keys;
    const auto add = [&](json config, size_t version) {
      config[kNoSuchKey] = 1;
      for (std::string& key : Read(config, version).known) keys.insert(std::move(key));
    };
    for (size_t version = 0; version < ModelCaseVersions().size(); ++version) {
      add(json::object(), version);
    }
    for (const CaseConfig& one : cases_) add(one.config, one.version);
    return keys;
  }

  // Returns an option with its rule, which shows when the key has a value that no key may have.
  OptionCoverage Option(const std::string& key) const {
    OptionCoverage option;
    option.key = key;
    option.rule = OptionRule::kIgnored;
    option.cases.resize(ModelCaseVersions().size());
    std::vector<std::pair<json, size_t>> configs = {{json::object(), 0}, {json::object(), 1}};
    for (const CaseConfig& one : cases_) configs.emplace_back(one.config, one.version);
    for (auto& [config, version] : configs) {
      config[key] = {{kNoSuchKey, {1}}};
      const std::map<std::string, std::string> wrong = Read(config, version).wrong;
      const auto found = wrong.find(key);
      if (found == wrong.end()) continue;
      SetRule(found->second, option);
      break;
    }
    return option;
  }

  // Returns whether the reader makes something else of the case without the key.
  bool Covers(const CaseConfig& one, const ConfigReading& whole, const std::string& key) const {
    if (!whole.ok || !one.config.contains(key)) return false;
    json rest = one.config;
    rest.erase(key);
    const ConfigReading without = Read(rest, one.version);
    return !without.ok || without.canonical != whole.canonical;
  }

  // Adds the cases to the options that they cover. The plainest case covers the fewest options.
  void AddCases(ClassCoverage& coverage) const {
    std::map<std::string, size_t> covered;  // options by case
    for (const CaseConfig& one : cases_) {
      const ConfigReading whole = Read(one.config, one.version);
      for (OptionCoverage& option : coverage.options) {
        OptionCases& cases = option.cases[one.version];
        cases.written |= one.config.contains(option.key);
        if (!one.passes || !Covers(one, whole, option.key)) continue;
        ++covered[absl::StrCat(one.version, one.name)];
        option.rule = OptionRule::kTaken;  // the reader need not say so of the value that was tried
        const bool is_new = cases.names.empty() || cases.names.back() != one.name;
        if (is_new) cases.names.push_back(one.name);
      }
    }
    for (OptionCoverage& option : coverage.options) {
      for (size_t version = 0; version < option.cases.size(); ++version) {
        std::vector<std::string>& names = option.cases[version].names;
        std::stable_sort(names.begin(), names.end(), [&](const auto& a, const auto& b) {
          return covered[absl::StrCat(version, a)] < covered[absl::StrCat(version, b)];
        });
      }
    }
  }

  const ProbedClass& probed_;
  const std::vector<CaseConfig> cases_;
};

// Moves the options that all classes have to `common`, which gets the cases of all of them.
void SplitCommon(KindCoverage& kind) {
  if (kind.classes.size() < 2) return;
  std::map<std::string, size_t> count;
  for (const ClassCoverage& one : kind.classes) {
    for (const OptionCoverage& option : one.options) ++count[option.key];
  }
  std::map<std::string, OptionCoverage> common;
  for (ClassCoverage& one : kind.classes) {
    for (OptionCoverage& option : one.options) {
      if (count[option.key] < kind.classes.size()) continue;
      const auto [found, is_new] = common.emplace(option.key, option);
      if (is_new) continue;
      for (size_t i = 0; i < option.cases.size(); ++i) {
        OptionCases& cases = found->second.cases[i];
        cases.written |= option.cases[i].written;
        cases.names.insert(cases.names.end(), option.cases[i].names.begin(),
                           option.cases[i].names.end());
      }
      // A key that one class takes is taken.
      if (option.rule == OptionRule::kTaken) found->second.rule = OptionRule::kTaken;
    }
    std::erase_if(one.options, [&](const OptionCoverage& option) {
      return count[option.key] >= kind.classes.size();
    });
  }
  for (auto& [key, option] : common) kind.common.push_back(std::move(option));
}

// Enters the other tests. A class that is named with "*" is covered with all its options.
void EnterTests(const std::string& kind, KindCoverage& coverage) {
  for (const CoveringTest& test : CoveringTests()) {
    if (test.kind != kind) continue;
    for (OptionCoverage& option : coverage.common) {
      if (test.class_name == "*" && test.key == option.key) option.test = test.file;
    }
    for (ClassCoverage& one : coverage.classes) {
      if (test.class_name != one.name && test.class_name != "*") continue;
      if (test.key == "*") one.test = test.file;
      for (OptionCoverage& option : one.options) {
        if (test.key == option.key || test.key == "*") option.test = test.file;
      }
    }
  }
}

}  // namespace

bool OptionCoverage::IsOpenIn(size_t version) const {
  if (rule != OptionRule::kTaken || !test.empty() || !cases[version].names.empty()) return false;
  // An option that no case of any version covers may not be written by any.
  return cases[version].written ||
         std::all_of(cases.begin(), cases.end(),
                     [](const OptionCases& one) { return one.names.empty(); });
}

std::vector<CoveringTest> CoveringTests() {
  std::vector<CoveringTest> tests;
  std::ifstream file(COHORT_SOURCE_DIR "/tests/models/covered_elsewhere.txt");
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line);
    CoveringTest test;
    if (absl::StartsWith(line, "#")) continue;
    if (words >> test.kind >> test.class_name >> test.key >> test.file) tests.push_back(test);
  }
  return tests;
}

KindCoverage CoverageOf(const std::string& kind) {
  KindCoverage coverage;
  for (const ProbedClass& probed : ProbedClasses(kind)) {
    coverage.classes.push_back(ClassProbe(probed).Run());
  }
  SplitCommon(coverage);
  EnterTests(kind, coverage);
  return coverage;
}

std::map<std::string, std::vector<ClassCases>> ActivationCases() {
  std::map<std::string, std::vector<ClassCases>> counts;
  for (const std::string& name : ActivationNames()) counts[name].resize(ModelCaseVersions().size());
  for (const CaseConfig& one : AllCases()) {
    std::string name = one.class_name;
    if (one.kind == "layer" && name == "Activation") name = one.config.value("activation", "");
    const auto found = counts.find(name);
    if (found == counts.end() || (one.kind == "layer" && one.class_name != "Activation")) continue;
    ClassCases& cases = found->second[one.version];
    ++(one.passes ? cases.passed : cases.not_yet);
  }
  return counts;
}

}  // namespace cohort
