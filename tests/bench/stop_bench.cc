// How long a job in full training takes to end after SIGTERM, with its tasks.

#include <signal.h>

#include <algorithm>
#include <map>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "common/base/status.h"
#include "common/cluster/exit_codes.h"
#include "tests/bench/bench.h"
#include "tests/bench/local_run.h"
#include "tests/support/run_process.h"
#include "tests/support/temp_directory.h"

namespace cohort::bench {

namespace {

constexpr double kBoundSeconds = 10;
constexpr absl::Duration kPatience = absl::Minutes(2);

absl::StatusOr<double> SecondsToStop(const std::string& job) {
  const TempDirectory state("cohort-stop");
  const std::string digits =
      R"(={"class_name": "SyntheticDigits", "config": {"seed": 1, "count": 2560}})";
  RunningProcess coordinator(
      absl::StrCat(BinaryDirectory(), "/coordinator"),
      {"--job", job, "--local", "ps=2,worker=3", "--state_dir", state / "state", "--set",
       "data.train" + digits, "--set", "data.test" + digits, "--set", "fit.epochs=1000000"},
      {{"TF_CONFIG", ""}});
  if (!coordinator.ReadErrUntil("Epoch 2/", kPatience)) {
    return absl::InternalError(absl::StrCat("no training: ", coordinator.err()));
  }
  const absl::Time start = absl::Now();
  coordinator.Signal(SIGTERM);
  const ProcessRun run = coordinator.Wait(kPatience);  // which ends after its tasks
  const double seconds = absl::ToDoubleSeconds(absl::Now() - start);
  if (run.exit_code == kExitJobFailed) return seconds;
  return absl::InternalError(absl::StrCat("exit code ", run.exit_code, ": ", run.err));
}

absl::Status Run(const Options& options) {
  ASSIGN_OR_RETURN(const int repeats, options.Number("repeats"));
  const std::string& job = options.Text("job");
  std::vector<double> seconds;
  for (int i = 0; i < repeats; ++i) {
    ASSIGN_OR_RETURN(seconds.emplace_back(), SecondsToStop(job));
  }
  Print({"stop",
         "coordinator, 2 ps, 3 workers",
         Median(seconds),
         "s",
         "bound",
         kBoundSeconds,
         {{"longest", *std::max_element(seconds.begin(), seconds.end())},
          {"repeats", static_cast<double>(repeats)}}});
  return absl::OkStatus();
}

}  // namespace

Command StopBench() {
  return {"stop",
          "seconds from SIGTERM to the end of a job in full training and of its tasks",
          {{"repeats", "5", "the median is printed"},
           {"job", "deploy/jobs/mnist_mlp.json", "trained on made-up digits"}},
          Run};
}

}  // namespace cohort::bench
