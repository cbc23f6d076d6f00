// Prints the verdict on each golden case: models_vectors [VERSION [FAMILY]] [--not-yet].
// With --not-yet, prints only the lines that tests/models/not_yet/FAMILY.txt should have.

#include <cstring>
#include <iostream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/models/expectations.h"
#include "tests/models/run_case.h"

namespace cohort {
namespace {

struct PrintOptions {
  std::string version;  // "": all versions
  std::string family;   // "": all families
  bool only_not_yet = false;
};

void PrintVerdicts(const std::string& version, const std::string& family,
                   const PrintOptions& options) {
  const auto cases = ReadModelCases(version, family);
  if (!cases.ok()) {
    std::cerr << cases.status() << std::endl;
    return;
  }
  const CaseExpectations expectations(family);
  for (const ModelCase& one : *cases) {
    std::string wrong = expectations.Wrong(one, RunModelCase(one, CaseKernels::kReference));
    if (wrong.empty()) wrong = expectations.Wrong(one, RunModelCase(one, CaseKernels::kCpu));
    if (options.only_not_yet) {
      if (!wrong.empty()) std::cout << version << " " << one.name << "\n";
      continue;
    }
    std::cout << version << " " << family << " " << one.name << ": "
              << (wrong.empty() ? (expectations.IsRefused(one) ? "refused" : "passed") : wrong)
              << std::endl;
  }
}

int PrintAll(const PrintOptions& options) {
  for (const std::string& version : ModelCaseVersions()) {
    if (!options.version.empty() && version != options.version) continue;
    for (const std::string& family : ModelCaseFamilies()) {
      if (!options.family.empty() && family != options.family) continue;
      PrintVerdicts(version, family, options);
    }
  }
  return 0;
}

}  // namespace
}  // namespace cohort

int main(int argc, char** argv) {
  cohort::PrintOptions options;
  std::vector<std::string> words;
  for (int i = 1; i < argc; ++i) {
    if (std::strcmp(argv[i], "--not-yet") == 0) {
      options.only_not_yet = true;
    } else {
      words.push_back(argv[i]);
    }
  }
  if (!words.empty()) options.version = words[0];
  if (words.size() > 1) options.family = words[1];
  return cohort::PrintAll(options);
}
