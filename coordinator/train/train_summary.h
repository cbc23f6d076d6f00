#pragma once

// The summary of a job that the coordinator prints at the job's end: one line of JSON, whose fields
// docs/OPERATIONS.md describes.

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "coordinator/schedule/scheduler.h"
#include "proto/ps.pb.h"

namespace cohort {

struct TrainSummary {
  std::string data;
  // The training epochs and steps of this job, in all its processes. Those of the checkpoint from
  // which the job began are left out, as Keras leaves the epochs before initial_epoch out of a
  // History.
  int64_t epochs = 0;
  int64_t steps = 0;
  // Number of all steps that the model has been trained, also before the job.
  int64_t global_step = 0;
  // Total time of the training epochs, without validation and checkpoints.
  absl::Duration train_time;
  std::vector<absl::Duration> epoch_times;  // time of each training epoch that this process has run
  double examples = 0;
  std::optional<double> train_loss;  // mean loss of the last training epoch
  std::optional<double> validation_loss;
  std::optional<double> test_loss;
  int64_t test_examples = 0;
  std::vector<std::pair<std::string, double>> train_metrics, validation_metrics, test_metrics;
  // Path prefix of the checkpoint that has the final model; empty if there is none.
  std::string checkpoint;
  std::string model;  // path of the exported ONNX file; empty if there is none
  Scheduler::Stats closures;
  proto::PsStatsResponse ps;
};

// Returns the summary as one line of JSON, the last line that the job writes to stdout.
std::string SummaryToJson(const TrainSummary& summary);

}  // namespace cohort
