// Small models over the supported layers, as several versions of Keras wrote them, give the outputs
// that these versions computed (tests/golden/models/make_configs.py).

#include <gtest/gtest.h>

#include <algorithm>
#include <iostream>
#include <map>
#include <set>
#include <string>

#include "absl/strings/str_cat.h"
#include "tests/models/run_config.h"

namespace cohort {
namespace {

TEST(KerasConfigs, GiveTheOutputsOfTheVersionThatWroteThem) {
  const auto configs = ReadConfigs();
  ASSERT_TRUE(configs.ok()) << configs.status();
  std::set<std::string> not_yet = ConfigsNotYet();
  std::map<std::string, int> passed;
  int open = 0;
  for (const KerasConfig& one : *configs) {
    const std::string line = absl::StrCat(one.keras, " ", one.name);
    std::string wrong;
    for (const CaseKernels kernels : {CaseKernels::kReference, CaseKernels::kCpu}) {
      const Verdict verdict = RunConfig(one, kernels);
      if (verdict.kind != Verdict::kPassed && wrong.empty()) wrong = verdict.text;
    }
    if (not_yet.erase(line) > 0) {
      ++open;
      EXPECT_NE(wrong, "") << line << " passes; remove it from tests/models/not_yet/configs.txt";
    } else {
      EXPECT_EQ(wrong, "") << line;
      if (wrong.empty()) ++passed[one.keras];
    }
  }
  EXPECT_EQ(not_yet, std::set<std::string>()) << "there is no such configuration";
  for (const auto& [version, count] : passed) std::cout << version << ": " << count << " passed\n";
  std::cout << configs->size() << " configurations, " << open << " not yet" << std::endl;
}

TEST(KerasConfigs, AreDifferentModelsOfSeveralVersions) {
  const auto configs = ReadConfigs();
  ASSERT_TRUE(configs.ok()) << configs.status();
  std::set<std::string> names, versions, lines;
  for (const KerasConfig& one : *configs) {
    names.insert(one.name);
    versions.insert(one.keras);
    EXPECT_TRUE(lines.insert(absl::StrCat(one.keras, " ", one.name)).second);
  }
  EXPECT_GE(names.size(), 30u);
  EXPECT_GE(versions.size(), 3u);
}

TEST(KerasConfigs, OutputsDependOnTheWeights) {
  const auto configs = ReadConfigs();
  ASSERT_TRUE(configs.ok()) << configs.status();
  const auto found = std::find_if(configs->begin(), configs->end(), [](const KerasConfig& one) {
    return one.name == "wide_and_deep";
  });
  ASSERT_NE(found, configs->end());
  KerasConfig other = *found;
  other.json["weights"][0]["seed"] = 1;
  EXPECT_EQ(RunConfig(other, CaseKernels::kReference).kind, Verdict::kFailed);
}

}  // namespace
}  // namespace cohort
