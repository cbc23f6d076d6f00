// 500 single-byte damages of the shipped job file: an error or another job, never a crash or a
// hang, and what is read can be written and read again.

#include <fstream>
#include <sstream>
#include <string>

#include "absl/strings/str_cat.h"
#include "coordinator/job/job_spec.h"
#include "gtest/gtest.h"
#include "tests/support/sequence_rng.h"

namespace cohort {
namespace {

constexpr int kDamages = 500;
constexpr uint64_t kSeed = 20240901;

TEST(JobDamage, FiveHundredSingleBytes) {
  std::ifstream file(COHORT_SOURCE_DIR "/deploy/jobs/mnist_mlp.json");
  std::stringstream stream;
  stream << file.rdbuf();
  const std::string text = stream.str();
  ASSERT_FALSE(text.empty());
  SequenceRng rng(kSeed);
  int errors = 0;
  for (int i = 0; i < kDamages; ++i) {
    std::string damaged = text;
    const size_t at = rng.Below(text.size());
    damaged[at] = static_cast<char>(damaged[at] ^ static_cast<char>(1 + rng.Below(255)));
    SCOPED_TRACE(absl::StrCat("seed ", kSeed, ", damage ", i, ", byte ", at,
                              "; replay: job_test --gtest_filter=JobDamage.*"));
    const absl::StatusOr<JobSpec> job = ParseJob(damaged, "damaged.json", {});
    if (!job.ok()) {
      ++errors;
      EXPECT_EQ(job.status().code(), absl::StatusCode::kInvalidArgument);
      EXPECT_EQ(job.status().message().find("damaged.json"), 0u);
      continue;
    }
    const absl::StatusOr<JobSpec> again = ParseJob(JobToJson(*job), "again.json", {});
    ASSERT_TRUE(again.ok()) << again.status();
    EXPECT_EQ(*again, *job);
  }
  // Most bytes are structure, keys or names; a digit or white space may change unnoticed.
  EXPECT_GT(errors, kDamages / 2);
}

}  // namespace
}  // namespace cohort
