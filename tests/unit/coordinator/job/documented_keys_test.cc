// docs/JOB_FILE.md names every key that a job file may have. The keys are those that the messages
// about unknown keys and classes list.

#include <fstream>
#include <set>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "coordinator/job/job_spec.h"
#include "gtest/gtest.h"

namespace cohort {
namespace {

std::string TextOf(const std::string& path) {
  std::ifstream file(absl::StrCat(COHORT_SOURCE_DIR "/", path));
  std::stringstream stream;
  stream << file.rdbuf();
  return stream.str();
}

// Returns what stands as a word between backticks, or in a block of three of them.
std::set<std::string> QuotedWords(const std::string& text) {
  std::set<std::string> words;
  const std::vector<std::string> parts = absl::StrSplit(text, '`');
  for (size_t i = 1; i < parts.size(); i += 2) {
    std::string word;
    for (const char c : absl::StrCat(parts[i], " ")) {
      if (absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '_') {
        word += c;
      } else {
        words.insert(std::exchange(word, ""));
      }
    }
  }
  return words;
}

// Returns the names that the error about `override_text` lists as known.
std::vector<std::string> Known(const std::string& override_text) {
  static const auto* const kJob = new std::string(TextOf("deploy/jobs/mnist_mlp.json"));
  const absl::StatusOr<JobSpec> job = ParseJob(*kJob, "job.json", {override_text});
  constexpr absl::string_view kBegin = "(known: ";
  const absl::string_view message = job.status().message();
  if (absl::StrContains(message, "none is known here")) return {};
  const size_t begin = message.find(kBegin);
  EXPECT_NE(begin, absl::string_view::npos) << override_text << ": " << job.status();
  if (begin == absl::string_view::npos) return {};
  const size_t end = message.find(')', begin);
  return absl::StrSplit(message.substr(begin + kBegin.size(), end - begin - kBegin.size()), ", ");
}

class DocumentedKeys : public testing::Test {
 protected:
  void ExpectDocumented(const std::string& override_text) {
    for (const std::string& name : Known(override_text)) {
      EXPECT_TRUE(words_.contains(name))
          << "docs/JOB_FILE.md does not name `" << name << "`, a key beside " << override_text;
    }
  }

  const std::set<std::string> words_ = QuotedWords(TextOf("docs/JOB_FILE.md"));
};

TEST_F(DocumentedKeys, OfSections) {
  for (const char* section : {"", "compile.", "data.", "fit.", "strategy.", "strategy.compression.",
                              "strategy.communication_options.", "checkpoint.",
                              "checkpoint.init_from.", "recovery.", "export.", "cluster."}) {
    ExpectDocumented(absl::StrCat(section, "?=1"));
  }
  ExpectDocumented(
      R"(model.config.layers.0={"class_name": "Embedding", "config": {"dynamic": {"?": 1}}})");
}

TEST_F(DocumentedKeys, OfClasses) {
  for (const char* place :
       {"model", "model.config.layers.0", "model.config.layers.2.config.kernel_initializer",
        "compile.optimizer", "compile.optimizer.config.learning_rate", "compile.loss",
        "compile.metrics.0", "data.train", "data.pipeline.0", "strategy.partitioner",
        "strategy.consistency"}) {
    SCOPED_TRACE(place);
    const std::string unknown = absl::StrCat(place, R"(={"class_name": "?"})");
    ExpectDocumented(unknown);
    for (const std::string& name : Known(unknown)) {
      ExpectDocumented(
          absl::StrCat(place, R"(={"class_name": ")", name, R"(", "config": {"?": 1}})"));
    }
  }
  ExpectDocumented(R"(data.train={"class_name": "MNIST", "?": 1})");
}

}  // namespace
}  // namespace cohort
