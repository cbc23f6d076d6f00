// Judges the golden cases of each version and family, on the reference kernels and on those of the
// processor, and prints how many passed, were refused as they should be, or do not pass yet.

#include <gtest/gtest.h>

#include <iostream>
#include <map>
#include <set>
#include <string>
#include <tuple>

#include "absl/strings/str_cat.h"
#include "tests/models/expectations.h"
#include "tests/models/run_case.h"

namespace cohort {
namespace {

struct CaseCounts {
  int cases = 0;
  int passed = 0;
  int refused = 0;
  int not_yet = 0;

  std::string ToString() const {
    return absl::StrCat(cases, " cases: ", passed, " passed, ", refused, " refused, ", not_yet,
                        " not yet");
  }
};

class GoldenVectors : public testing::TestWithParam<std::tuple<std::string, std::string>> {
 protected:
  static void SetUpTestSuite() { Totals().clear(); }
  static void TearDownTestSuite() {
    for (const auto& [version, counts] : Totals()) {
      std::cout << version << ": " << counts.ToString() << std::endl;
    }
  }
  // Returns the sums over the families of each version that this process has run.
  static std::map<std::string, CaseCounts>& Totals() {
    static auto* const totals = new std::map<std::string, CaseCounts>();
    return *totals;
  }

  static std::string Judge(const ModelCase& one, const CaseExpectations& expectations) {
    for (const CaseKernels kernels : {CaseKernels::kReference, CaseKernels::kCpu}) {
      const std::string wrong = expectations.Wrong(one, RunModelCase(one, kernels));
      if (wrong.empty()) continue;
      return absl::StrCat(kernels == CaseKernels::kCpu ? "on the cpu kernels: " : "", wrong);
    }
    return "";
  }
};

void Count(const ModelCase& one, const CaseExpectations& expectations, bool right,
           CaseCounts& counts) {
  ++counts.cases;
  if (!right) {
    ++counts.not_yet;
  } else if (expectations.IsRefused(one)) {
    ++counts.refused;
  } else {
    ++counts.passed;
  }
}

TEST_P(GoldenVectors, AreAsExpected) {
  const auto& [version, family] = GetParam();
  const auto cases = ReadModelCases(version, family);
  ASSERT_TRUE(cases.ok()) << cases.status();
  const CaseExpectations expectations(family);
  CaseCounts counts;
  for (const ModelCase& one : *cases) {
    const std::string wrong = Judge(one, expectations);
    Count(one, expectations, wrong.empty(), counts);
    Count(one, expectations, wrong.empty(), Totals()[version]);
    if (expectations.IsNotYet(one)) {
      EXPECT_NE(wrong, "") << version << " " << one.name << " passes; remove its line from "
                           << "tests/models/not_yet/" << family << ".txt";
    } else {
      EXPECT_EQ(wrong, "") << version << " " << one.name;
    }
  }
  std::cout << version << " " << family << ": " << counts.ToString() << std::endl;
}

INSTANTIATE_TEST_SUITE_P(Models, GoldenVectors,
                         testing::Combine(testing::ValuesIn(ModelCaseVersions()),
                                          testing::ValuesIn(ModelCaseFamilies())),
                         [](const auto& tested) {
                           std::string name = std::get<0>(tested.param);
                           name.erase(name.find('.'), 1);
                           return name + "_" + std::get<1>(tested.param);
                         });

TEST(GoldenPacks, HoldEveryCaseOnce) {
  if (!UnpackedModelCases().empty()) return;  // cases that are not packed have other numbers
  // The cases of golden_models.py and of golden_options.py.
  const std::map<std::string, size_t> expected = {{"k2.15", 1040 + 54}, {"k3.15", 1135 + 76}};
  std::map<std::string, std::set<std::string>> names;
  for (const std::string& family : ModelCaseFamilies()) {
    std::set<std::string> in_family;
    for (const std::string& version : ModelCaseVersions()) {
      const auto cases = ReadModelCases(version, family);
      ASSERT_TRUE(cases.ok()) << cases.status();
      for (const ModelCase& one : *cases) {
        EXPECT_TRUE(names[version].insert(one.name).second) << one.name;
        EXPECT_EQ(FamilyOf(one.kind, one.class_name), family) << one.name;
        in_family.insert(absl::StrCat(version, " ", one.name));
      }
    }
    EXPECT_EQ(CaseExpectations(family).LinesWithoutCase(in_family), std::set<std::string>());
  }
  for (const auto& [version, count] : expected) EXPECT_EQ(names[version].size(), count) << version;
}

}  // namespace
}  // namespace cohort
