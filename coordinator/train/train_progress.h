#pragma once

// The progress of a job, as each recovery checkpoint saves it: the training epoch, the pass over
// data that is under way (the training of the epoch, its validation, or the final test), which
// steps of the pass are covered, and the sums that these steps reported. Here "epoch" means Keras's
// epoch. The steps of a pass have consecutive ids, and a closure has the id of its first step, so
// the ids that a cut leaves open tell which closures are left to run. The calls for an epoch are
// BeginPass(TRAINING), EndTraining, perhaps BeginPass(VALIDATION) and EndValidation, then EndEpoch.

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "common/base/mutex.h"
#include "common/task/data_files.h"
#include "coordinator/api/progress.h"
#include "coordinator/schedule/redo_log.h"
#include "coordinator/train/epoch_meter.h"
#include "coordinator/train/job_settings.h"
#include "proto/recovery.pb.h"

namespace cohort {

// The progress of one job's training. Thread-safe. Shared with the recovery, which saves the
// progress in each recovery checkpoint.
class TrainProgress {
 public:
  // The settings that a process must have to continue the job, and for messages the directory of
  // the job's recovery checkpoints and whether the job has a checkpoint.directory.
  struct Job {
    JobSettings settings;
    std::string recovery_directory;
    bool saves_checkpoints = false;
  };
  explicit TrainProgress(Job job) : job_(std::move(job)) {}

  // Checks that the progress in `state` was saved by a job with the same settings. Needs neither
  // data nor devices, so the check is made before any task is changed. Errors: FAILED_PRECONDITION
  // naming the settings that differ, or for a state without the progress of a training; DATA_LOSS
  // for an unreadable state.
  absl::Status CheckSettings(const proto::CoordinatorState& state) const;

  // Takes over the progress that an earlier process saved in `state`. Errors: those of
  // CheckSettings; FAILED_PRECONDITION if the training data or the devices are others.
  absl::Status Load(const proto::CoordinatorState& state);

  // Returns the homes of slices in `state`, as SetHomes was given them before `state` was saved;
  // none if the state cannot be read.
  static std::vector<uint32_t> HomesIn(const proto::CoordinatorState& state);

  Progress progress() const;
  // Examples and seconds of the training epochs that are done.
  struct Totals {
    double examples = 0;
    double seconds = 0;
  };
  Totals totals() const;

  // The identity of a data set. A saved position in the data, and saved sums of an evaluation, are
  // valid only for data with the same identity.
  struct DataIdentity {
    int64_t length = 0;    // number of elements of the data set
    uint32_t content = 0;  // checksum of the data set's content (ExpectedData.content)
    friend bool operator==(const DataIdentity&, const DataIdentity&) = default;
  };

  // A pass over data that has begun, and the part of the pass that an earlier process has run.
  struct Begun {
    ClosureId first;
    // The closures that are left to run: those in `open`, in ascending order, and all from `next`
    // on. In a new pass, `open` is empty and `next` is `first`.
    std::vector<ClosureId> open;
    ClosureId next;
    // The closures of an evaluation that an earlier process has run, given by the numbers of their
    // first steps in the pass.
    std::set<int64_t> evaluated;
    EpochMeter::Sums sums;  // sums that the closures reported which an earlier process has run
    // Returns whether the closure whose first step has the number `step` in the pass, and whose id
    // is `first` + `step`, is left to run.
    bool IsLeft(int64_t step) const;
  };
  // Begins a pass over `data`, or continues it if an earlier process has begun it. Returns the
  // first closure and the closures that are left to run. `next` is the id that the coordinator
  // would give to the next closure. The closures of a new pass have ids from `next` on, but no id
  // that a closure of an abandoned pass may have had. If the test data have changed, the test
  // begins anew, and the log says so.
  Begun BeginPass(proto::TrainState::Pass pass, ClosureId next, const DataIdentity& data);
  // Notes that the closure with the first step `step` of the present evaluation is done, and adds
  // its sums. Does nothing during a training, where cuts tell which closures are done.
  void AddEvaluated(int64_t step, const std::vector<EpochMeter::Sums>& sums);
  // Ends the training pass of the present epoch, all of whose steps are done. The next training
  // epoch begins at the position `data`.
  void EndTraining(int64_t steps, const DataPosition& data, const Totals& epoch,
                   const EpochMeter::Sums& sums);
  void EndValidation(const EpochMeter::Sums& sums);
  // Ends the present training epoch, whose validation and checkpoint are done.
  void EndEpoch();
  // The sums of the training and of the validation of one training epoch. A part that is not done
  // has no sums.
  struct Results {
    std::optional<EpochMeter::Sums> trained, validated;
  };
  // Returns the results of the training epoch that is under way.
  Results epoch_results() const;
  // Returns the results of the last training epoch whose training pass is done.
  Results last_results() const;
  // Sets the homes of the slices, in the order of the slices' ids. An empty list means that the
  // homes follow from the job and its cluster.
  void SetHomes(std::vector<uint32_t> homes);
  // Sets the devices of all workers, if the job uses all devices of each worker. An empty list
  // means that the job names its devices. Called before Load.
  void SetDevices(std::vector<std::string> devices);
  // Sets the identity of the training data, before any split, and for messages the files that one
  // worker has read. Called before Load.
  void SetData(DataIdentity data, const FilesOfReader& files);
  // Sets the progress of a training that begins from the checkpoint `prefix`, which is not a
  // recovery checkpoint.
  void SetProgress(const Progress& progress, const std::string& prefix);
  // Returns the progress that the checkpoint had from which the job began; 0 steps if the job began
  // anew.
  Progress before() const;
  // Ends a training that has already done more than the job asks for. An epoch whose training pass
  // is done counts as done, without its validation. Of an epoch under way, the `updates` that were
  // made count as steps; `data` is the position in the data after them, and `examples` the number
  // of examples that they have read.
  struct Excess {
    int64_t updates = 0;
    DataPosition data;
    double examples = 0;
  };
  void EndEarly(const Excess& excess);
  // Returns whether an earlier process has run the closure with the first step `step` of the
  // training epoch under way. Called between Load and BeginPass.
  bool IsMade(int64_t step) const;
  // A checkpoint of the job, by its prefix, and the number of steps after which it was saved.
  struct SavedCheckpoint {
    // Path of the checkpoint without file endings; empty if there is no checkpoint.
    std::string prefix;
    int64_t step = 0;
  };
  SavedCheckpoint checkpoint() const;
  // Records the name of the checkpoint that will have the model after `planned.step` steps. Called
  // before the last of these steps begins, so that every recovery checkpoint that covers all of
  // them also has the name, even one that is made before the checkpoint is saved.
  void PlanCheckpoint(const SavedCheckpoint& planned);
  SavedCheckpoint planned_checkpoint() const;
  // Records that the checkpoint `prefix` has the model after the present number of steps.
  void SetCheckpoint(const std::string& prefix);

  // Returns the progress as the bytes of a TrainState, in which the closures that `cut` covers
  // count as done.
  std::string Save(const Cut& cut);
  // Returns the id below which no later cut reads the result of a closure of this pass: those are
  // durable, and their sums are known.
  ClosureId settled() const;
  // Returns the number of closures whose sums are kept one by one.
  size_t num_reported() const;

 private:
  // Returns the progress in `state`, which a job with the same settings must have saved. Errors:
  // those of CheckSettings.
  absl::StatusOr<proto::TrainState> Parse(const proto::CoordinatorState& state) const;
  // Returns what a user can do to begin the training anew, as the end of a message.
  std::string StartAnew() const;
  absl::Status CheckDataLocked(const proto::TrainState& train) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Takes the sums of the closures of a training that the cut covers.
  void ReportLocked(const Cut& cut) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void EndPassLocked() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const Job job_;
  mutable Mutex mutex_;
  Progress progress_ ABSL_GUARDED_BY(mutex_);
  Progress before_ ABSL_GUARDED_BY(mutex_);  // progress of the checkpoint from which the job began
  SavedCheckpoint checkpoint_ ABSL_GUARDED_BY(mutex_);
  // Name of the checkpoint that will be saved next.
  SavedCheckpoint planned_ ABSL_GUARDED_BY(mutex_);
  Totals totals_ ABSL_GUARDED_BY(mutex_);
  std::vector<uint32_t> homes_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::string> devices_ ABSL_GUARDED_BY(mutex_);
  DataIdentity data_ ABSL_GUARDED_BY(mutex_);
  // The files of the training data, and the worker that has read them.
  google::protobuf::RepeatedPtrField<proto::DataFile> data_files_ ABSL_GUARDED_BY(mutex_);
  std::string data_worker_ ABSL_GUARDED_BY(mutex_);
  // The results of the last training epoch whose training pass is done.
  Results results_ ABSL_GUARDED_BY(mutex_);
  // Whether the training pass of the present epoch is done; true from EndTraining to EndEpoch.
  bool is_trained_ ABSL_GUARDED_BY(mutex_) = false;
  // The pass over data that is under way, and the identity of its data.
  proto::TrainState::Pass pass_ ABSL_GUARDED_BY(mutex_) = proto::TrainState::TRAINING;
  DataIdentity pass_data_ ABSL_GUARDED_BY(mutex_);
  // The id of the first closure of the pass under way; 0 if no pass is under way.
  ClosureId first_ ABSL_GUARDED_BY(mutex_);
  // Sums that an earlier process reported for this pass, and those of its durable closures.
  EpochMeter::Sums sums_before_ ABSL_GUARDED_BY(mutex_);
  // The closures of the present evaluation that are done, in this process or an earlier one, given
  // by the numbers of their first steps.
  std::set<int64_t> evaluated_ ABSL_GUARDED_BY(mutex_);
  // The sums of this pass's closures that a cut has covered and that are not durable, by closure. A
  // restore may take such a closure back. The sums of durable closures are in sums_before_.
  std::map<ClosureId, EpochMeter::Sums> reported_ ABSL_GUARDED_BY(mutex_);
  ClosureId settled_ ABSL_GUARDED_BY(mutex_);
  std::optional<Begun> begun_ ABSL_GUARDED_BY(mutex_);
  // The id that the earlier process would have given to its next closure.
  ClosureId next_before_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace cohort
