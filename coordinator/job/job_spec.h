#pragma once

// A job: what to train, on which data, how, and where the results go. A job file is JSON. Models,
// optimizers, losses and metrics have the form in which Keras serialises them (docs/JOB_FILE.md
// lists every key). ParseJob converts the text into the typed values of this file, and checks each
// value by itself. Whether the parts fit together (shapes, labels) is checked when programs are
// built (coordinator/model/model_programs.h).

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "coordinator/job/compile_spec.h"
#include "coordinator/job/data_spec.h"
#include "coordinator/job/keras_model.h"
#include "coordinator/job/strategy_spec.h"
#include "coordinator/network/model_spec.h"

namespace cohort {

// The arguments of Keras's fit(), and the number of closures that a worker holds at once.
struct FitSpec {
  int64_t epochs = 1;
  int64_t batch_size = 32;
  std::optional<int64_t> steps_per_epoch;  // steps of an epoch; absent: one pass over the data
  double validation_split = 0;             // the LAST fraction of the data, taken before shuffling
  std::optional<int64_t> validation_batch_size;  // for validation and test data; absent: batch_size
  bool shuffle = true;
  // Factors of the losses of examples by the class of their label; 1 for a class without an entry.
  std::map<int64_t, double> class_weight;
  int64_t closures_in_flight = 2;  // closures that a worker holds at once

  friend bool operator==(const FitSpec&, const FitSpec&) = default;
};

// Weights of another program with which the training begins (common/formats/weights).
struct InitFromSpec {
  // The value of a variable, if the file does not have it under the variable's name.
  struct Source {
    std::string from;  // name of the value in the file
    std::vector<int64_t>
        transpose;  // axis i is axis transpose[i] of the file's value; may be empty

    friend bool operator==(const Source&, const Source&) = default;
  };
  std::string path;  // empty: none
  std::map<std::string, Source> map;
  bool weights_only = false;   // true: only variables are taken, not the optimizer's state
  bool skip_mismatch = false;  // true: a variable whose value has another shape begins as new

  friend bool operator==(const InitFromSpec&, const InitFromSpec&) = default;
};

struct CheckpointSpec {
  std::string directory;  // directory of checkpoints; empty: none are saved
  int64_t max_to_keep = 3;
  int64_t every_epochs = 1;  // one more checkpoint is saved after the last epoch
  // The checkpoint to start from: empty for none, "latest" for the newest one in `directory`, if
  // any, or a prefix.
  std::string restore;
  // True: only the variables of that checkpoint are restored. Slots, steps and epochs begin anew.
  bool weights_only = false;
  // The weights with which the training begins, if there is no recovery checkpoint and `restore`
  // finds no checkpoint.
  InitFromSpec init_from;
  // The tasks that read and write the files of checkpoints, including recovery checkpoints:
  // "shared" means each ps, "stream" means the coordinator. "auto" means each ps if all ps see the
  // coordinator's directory, else the coordinator.
  std::string mode = "auto";

  friend bool operator==(const CheckpointSpec&, const CheckpointSpec&) = default;
};

// Checkpoints from which the job recovers by itself after the loss of a ps or of the coordinator.
struct RecoverySpec {
  bool enabled = true;
  // A directory that the coordinator uses. If empty: `recovery` in checkpoint.directory, else the
  // state directory of local tasks, else there are no recovery checkpoints.
  std::string directory;
  absl::Duration interval = absl::Seconds(10);
  // A checkpoint is due after this many steps, even before `interval`; 0: only `interval` counts.
  int64_t interval_steps = 0;
  int64_t max_steps = 65536;  // upper bound of the steps that run again after a loss

  friend bool operator==(const RecoverySpec&, const RecoverySpec&) = default;
};

// Paths of the files of the trained model; empty: such a file is not written.
struct ExportSpec {
  std::string onnx;
  std::string keras;
  std::string weights_h5;
  std::string safetensors;
  std::string tf_checkpoint;  // the prefix of the checkpoint's files

  // One exported file, and the key that names it, such as "export.onnx".
  struct File {
    std::string key;
    std::string path;
  };
  // Returns the files that the job exports.
  std::vector<File> Files() const;

  friend bool operator==(const ExportSpec&, const ExportSpec&) = default;
};

struct ClusterOptionsSpec {
  // How long the job waits until every task has answered once.
  absl::Duration connect_timeout = absl::Seconds(60);
  absl::Duration lease_timeout = absl::Seconds(5);  // a task that is silent for this long is lost
  absl::Duration call_timeout = absl::Seconds(60);  // time limit of one call
  int64_t max_attempts = 10;                        // the number of faults at which a closure fails
  // Worker processes that may end together with a closure before the closure is not run again.
  int64_t quarantine_after = 3;
  bool skip_quarantined = false;  // true: the job continues without quarantined closures
  int64_t queue_size = 256;       // upper bound of the closures queued and in flight
  int64_t min_workers = 1;  // the job starts with this many workers, and never continues with fewer
  std::optional<int64_t> max_workers;  // upper bound of the workers; absent: no limit

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

// Parses a job. `file_name` begins each message. `overrides` have the form "a.b.2=value"
// (overrides.h) and are applied before anything is checked. Errors: INVALID_ARGUMENT listing every
// wrong key and value with its path, what was found and what is allowed; INVALID_ARGUMENT for text
// that is not JSON, is too long or too deeply nested, or contains a key twice.
absl::StatusOr<JobSpec> ParseJob(absl::string_view text, absl::string_view file_name,
                                 absl::Span<const std::string> overrides);

// Parses a job whose section `model` may name a file, which `files` reads (keras_model.h). The
// overload without `files` refuses such a job. Errors: those of that overload; INVALID_ARGUMENT for
// a file that cannot be read or has no model.
absl::StatusOr<JobSpec> ParseJob(absl::string_view text, absl::string_view file_name,
                                 absl::Span<const std::string> overrides,
                                 const ModelFileReader& files);

// Returns the whole job as JSON, defaults included. ParseJob reads the text back to the same value.
std::string JobToJson(const JobSpec& job);

// Upper bound on the size of a job file in bytes.
inline constexpr size_t kJobFileBytesMax = 1 << 20;

}  // namespace cohort
