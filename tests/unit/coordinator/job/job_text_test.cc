// The text of a job with all its defaults is what its fingerprint is taken from
// (coordinator/train/job_settings.h): a process continues what another did only if their texts are
// equal. So the text of a job file must stay the same in later versions. tests/golden/job_settings
// has jobs, NAME.job.json, and the texts that were written for them first, NAME.json.

#include <fstream>
#include <sstream>
#include <string>

#include "absl/strings/str_cat.h"
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

void ExpectText(const std::string& job_path, const std::string& name) {
  SCOPED_TRACE(job_path);
  const absl::StatusOr<JobSpec> job = ParseJob(TextOf(job_path), name, {});
  ASSERT_TRUE(job.ok()) << job.status();
  EXPECT_EQ(JobToJson(*job), TextOf(absl::StrCat("tests/golden/job_settings/", name, ".json")));
}

TEST(JobText, OfEarlierJobFilesStaysTheSame) {
  for (const char* name : {"every_layer", "sequential"}) {
    ExpectText(absl::StrCat("tests/golden/job_settings/", name, ".job.json"), name);
  }
  for (const char* name :
       {"mnist_cnn", "mnist_mlp", "mnist_mlp_sparse_adam", "wide_and_deep", "adult_wide_deep"}) {
    ExpectText(absl::StrCat("deploy/jobs/", name, ".json"), name);
  }
}

}  // namespace
}  // namespace cohort
