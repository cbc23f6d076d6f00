#pragma once

// What a job says at its end: one line of JSON, whose fields docs/OPERATIONS.md describes.

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
  // The epochs and steps that the job has trained, in all its processes. Those of the checkpoint
  // that it began from are not among them, as initial_epoch is not in a History of Keras.
  int64_t epochs = 0;
  int64_t steps = 0;
  int64_t global_step = 0;    // the steps that the model has, with those of that checkpoint
  absl::Duration train_time;  // the time of the epochs alone, without validation and checkpoints
  std::vector<absl::Duration> epoch_times;  // the time of each epoch that this process has trained
  double examples = 0;
  std::optional<double> train_loss;  // loss of the last epoch
  std::optional<double> validation_loss;
  std::optional<double> test_loss;
  int64_t test_examples = 0;
  std::vector<std::pair<std::string, double>> train_metrics, validation_metrics, test_metrics;
  std::string checkpoint;  // path prefix of the checkpoint that has the model; empty: none
  std::string model;       // path of the exported ONNX file
  Scheduler::Stats closures;
  proto::PsStatsResponse ps;
};

// Returns one line of JSON, the last line that the job writes to stdout.
std::string SummaryToJson(const TrainSummary& summary);

}  // namespace cohort
