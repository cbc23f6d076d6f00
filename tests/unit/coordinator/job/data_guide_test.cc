// The examples of docs/DATA.md are sections `data` of jobs, as users would write them.

#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "coordinator/job/job_spec.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace cohort {
namespace {

// Returns the code blocks of the page that are JSON.
std::vector<std::string> Examples() {
  std::ifstream file(COHORT_SOURCE_DIR "/docs/DATA.md");
  std::stringstream page;
  page << file.rdbuf();
  const std::string text = page.str();
  const std::string begin = "```json\n";
  std::vector<std::string> examples;
  for (size_t at = text.find(begin); at != std::string::npos; at = text.find(begin, at)) {
    at += begin.size();
    examples.push_back(text.substr(at, text.find("```", at) - at));
  }
  return examples;
}

TEST(DataGuide, ExamplesAreRead) {
  const std::vector<std::string> examples = Examples();
  EXPECT_EQ(examples.size(), 6u);
  for (const std::string& example : examples) {
    const auto job = ParseJob(absl::StrCat(R"({"model": {"class_name": "Sequential", "config":
        {"layers": [{"class_name": "Dense", "config": {"units": 1}}]}},
        "compile": {"optimizer": "sgd", "loss": "mse"}, "fit": {}, "data": )",
                                           example, "}"),
                              "docs/DATA.md", {});
    EXPECT_TRUE(job.ok()) << example << job.status();
  }
}

}  // namespace
}  // namespace cohort
