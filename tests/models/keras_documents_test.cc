// docs/KERAS.md and docs/KERAS_OPTIONS.md say what the tables in the code and the golden cases say.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <set>
#include <sstream>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "tests/models/golden_case.h"
#include "tests/models/keras_coverage.h"
#include "tests/models/keras_tables.h"

namespace cohort {
namespace {

using testing::Contains;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

std::string TextOf(const std::string& path) {
  std::stringstream text;
  text << std::ifstream(absl::StrCat(COHORT_SOURCE_DIR "/", path)).rdbuf();
  return text.str();
}

// Returns the first line in which two texts differ.
std::string FirstDifference(const std::string& a, const std::string& b) {
  const std::vector<std::string> left = absl::StrSplit(a, '\n');
  const std::vector<std::string> right = absl::StrSplit(b, '\n');
  const auto [one, other] = std::mismatch(left.begin(), left.end(), right.begin(), right.end());
  return absl::StrCat("line ", one - left.begin() + 1, " is\n  ",
                      one == left.end() ? "(the end)" : *one, "\nand should be\n  ",
                      other == right.end() ? "(the end)" : *other);
}

const ClassCoverage& ClassOf(const KindCoverage& coverage, const std::string& name) {
  const auto found = std::find_if(coverage.classes.begin(), coverage.classes.end(),
                                  [&](const ClassCoverage& one) { return one.name == name; });
  EXPECT_NE(found, coverage.classes.end()) << name;
  return *found;
}

const OptionCoverage& OptionOf(const ClassCoverage& coverage, const std::string& key) {
  const auto found = std::find_if(coverage.options.begin(), coverage.options.end(),
                                  [&](const OptionCoverage& one) { return one.key == key; });
  EXPECT_NE(found, coverage.options.end()) << coverage.name << "." << key;
  return *found;
}

TEST(KerasDocumentsTest, AreWhatTheTablesAndTheCasesSay) {
  if (!UnpackedModelCases().empty()) return;  // cases that are not packed have other names
  for (const MadeDocument& document : KerasDocuments()) {
    const std::string text = TextOf(document.path);
    const auto wanted = WithMadePart(document, text);
    ASSERT_TRUE(wanted.ok()) << wanted.status();
    EXPECT_TRUE(text == *wanted)
        << document.path << ", " << FirstDifference(text, *wanted)
        << "\nThe target write_keras_documents is a program that writes it: "
        << "tests/write_keras_documents in the build folder.";
  }
}

TEST(KerasDocumentsTest, NameTheTestsThatCoverWhatNoCaseDoes) {
  for (const CoveringTest& test : CoveringTests()) {
    const std::string line = absl::StrCat(test.kind, " ", test.class_name, " ", test.key);
    const std::string text = TextOf(test.file);
    EXPECT_NE(text, "") << line << ": there is no " << test.file;
    const std::string& word = test.key == "*" ? test.class_name : test.key;
    EXPECT_TRUE(absl::StrContains(text, word)) << line << ": " << test.file << " has no " << word;
    std::set<std::string> known = {"*"};
    for (const ProbedClass& one : ProbedClasses(test.kind)) known.insert(one.name);
    EXPECT_THAT(known, Contains(test.class_name)) << line;
  }
}

// tests/process/keras_examples_test.cc runs the files.
TEST(KerasDocumentsTest, ShowTheExamplesAsTheyAre) {
  const std::string guide = TextOf("docs/KERAS.md");
  for (const char* name : {"digits_cnn", "two_inputs", "saved_model"}) {
    const std::string path = absl::StrCat("docs/examples/keras/", name);
    const std::string job = TextOf(path + ".json");
    EXPECT_THAT(guide, HasSubstr(absl::StrCat("```json\n", job, "```"))) << path << ".json";
  }
  for (const char* name : {"digits_cnn", "two_inputs"}) {
    const std::string script = TextOf(absl::StrCat("docs/examples/keras/", name, ".py"));
    const std::string code = script.substr(script.find("import keras"));
    EXPECT_THAT(guide, HasSubstr(absl::StrCat("```python\n", code, "```"))) << name << ".py";
  }
}

TEST(KerasCoverageTest, ACaseCoversWhatItsMeaningNeeds) {
  const KindCoverage layers = CoverageOf("layer");
  const ClassCoverage& conv = ClassOf(layers, "Conv2D");
  EXPECT_EQ(OptionOf(conv, "groups").rule, OptionRule::kTaken);
  for (const OptionCases& cases : OptionOf(conv, "groups").cases) {
    EXPECT_THAT(cases.names, Not(IsEmpty()));
    // Every case has the key, and all but a few have it at its default.
    EXPECT_LT(cases.names.size(), OptionOf(conv, "filters").cases[0].names.size());
  }
  const ClassCoverage& lstm = ClassOf(layers, "LSTM");
  EXPECT_EQ(OptionOf(lstm, "implementation").rule, OptionRule::kIgnored);
  EXPECT_EQ(OptionOf(ClassOf(layers, "DepthwiseConv2D"), "groups").rule, OptionRule::kOneValue);
  EXPECT_EQ(OptionOf(ClassOf(layers, "DepthwiseConv2D"), "groups").value, "1");
  EXPECT_THAT(OptionOf(ClassOf(CoverageOf("loss"), "Huber"), "delta").cases[0].names,
              Not(IsEmpty()));
}

TEST(KerasCoverageTest, LeavesNoOptionOpen) {
  if (!UnpackedModelCases().empty()) return;  // other cases cover other options
  EXPECT_THAT(OpenOptions(), IsEmpty());
}

TEST(KerasDocumentsTest, OnlyTheMadePartIsReplaced) {
  const MadeDocument document = {"docs/X.md", "new\n"};
  EXPECT_EQ(*WithMadePart(document, "a\n<!-- made: begin -->\nold\n<!-- made: end -->\nb\n"),
            "a\n<!-- made: begin -->\nnew\n<!-- made: end -->\nb\n");
  for (const char* text :
       {"", "<!-- made: begin -->\n", "<!-- made: end -->\n<!-- made: begin -->\n",
        "<!-- made: begin -->\n<!-- made: begin -->\n<!-- made: end -->\n"}) {
    EXPECT_THAT(WithMadePart(document, text).status().message(), HasSubstr("docs/X.md: needs"));
  }
}

}  // namespace
}  // namespace cohort
