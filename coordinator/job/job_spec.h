#pragma once

// A job file says what to train, on what data, how, and where results go. It is JSON; models,
// optimizers, losses and metrics have the form in which Keras serialises them (docs/JOB_FILE.md
// lists every key). ParseJob turns the text into the typed values below, checked one by one;
// whether the parts fit together (shapes, labels) is found when programs are built
// (coordinator/model/model_programs.h).

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "coordinator/job/compile_spec.h"
#include "coordinator/job/data_spec.h"
#include "coordinator/job/layer_spec.h"
#include "coordinator/job/strategy_spec.h"

namespace cohort {

// Keras's fit(), and how many closures a worker holds at once.
struct FitSpec {
  int64_t epochs = 1;
  int64_t batch_size = 32;
  std::optional<int64_t> steps_per_epoch;        // absent: one pass over the data
  double validation_split = 0;                   // the LAST fraction of the data, before shuffling
  std::optional<int64_t> validation_batch_size;  // absent: batch_size; also for the test data
  bool shuffle = true;
  int64_t closures_in_flight = 2;  // per worker

  friend bool operator==(const FitSpec&, const FitSpec&) = default;
};

struct CheckpointSpec {
  std::string directory;  // empty: no checkpoints
  int64_t max_to_keep = 3;
  int64_t every_epochs = 1;  // and one at the end
  // Empty: start anew; "latest": the newest in `directory`, if any; else a prefix.
  std::string restore;
  // Takes variables alone from there: slots, steps and epochs begin anew.
  bool weights_only = false;
  // The reader and writer of the files, also of those for recovery: "shared", each ps; "stream",
  // the coordinator; "auto": each ps if all see the coordinator's directory, else the coordinator.
  std::string mode = "auto";

  friend bool operator==(const CheckpointSpec&, const CheckpointSpec&) = default;
};

// Checkpoints from which the job goes on by itself when a ps or the coordinator was lost.
struct RecoverySpec {
  bool enabled = true;
  // The coordinator's. Empty: `recovery` in checkpoint.directory, else with local tasks in their
  // state directory, else there are none.
  std::string directory;
  absl::Duration interval = absl::Seconds(10);
  int64_t interval_steps = 0;  // steps that ask for one before `interval` does; 0: only time does
  int64_t max_steps = 65536;   // steps that may run again after a loss

  friend bool operator==(const RecoverySpec&, const RecoverySpec&) = default;
};

struct ExportSpec {
  std::string onnx;  // path of the trained model; empty: none

  friend bool operator==(const ExportSpec&, const ExportSpec&) = default;
};

struct ClusterOptionsSpec {
  absl::Duration connect_timeout = absl::Seconds(60);  // until every task has answered once
  absl::Duration lease_timeout = absl::Seconds(5);     // a task silent for so long is lost
  absl::Duration call_timeout = absl::Seconds(60);     // deadline of one call
  int64_t max_attempts = 10;                           // for one closure, before it has failed
  int64_t quarantine_after = 3;        // worker processes that end together with one closure
  bool skip_quarantined = false;       // go on without it
  int64_t queue_size = 256;            // closures queued and in flight
  int64_t min_workers = 1;             // the job starts with, and is never left with fewer
  std::optional<int64_t> max_workers;  // absent: any number

  friend bool operator==(const ClusterOptionsSpec&, const ClusterOptionsSpec&) = default;
};

struct JobSpec {
  std::string name = "job";
  uint64_t seed = 0;
  ModelSpec model;
  CompileSpec compile;
  DataSpec data;
  FitSpec fit;
  StrategySpec strategy;
  CheckpointSpec checkpoint;
  RecoverySpec recovery;
  ExportSpec export_to;
  ClusterOptionsSpec cluster;

  friend bool operator==(const JobSpec&, const JobSpec&) = default;
};

// Parses a job. `file_name` begins each message. `overrides` are "a.b.2=value" (overrides.h),
// applied before anything is checked. Errors: INVALID_ARGUMENT that lists every wrong key and value
// with its path, what it was and what it may be; text that is not JSON, is too long or too deep, or
// names a key twice.
absl::StatusOr<JobSpec> ParseJob(absl::string_view text, absl::string_view file_name,
                                 absl::Span<const std::string> overrides);

// Returns the whole job, defaults written out; ParseJob reads it back to the same value.
std::string JobToJson(const JobSpec& job);

// The longest job file that is read.
inline constexpr size_t kJobFileBytesMax = 1 << 20;

}  // namespace cohort
