#pragma once

// The progress of a job, as each recovery checkpoint saves it: the epoch, the pass over data that
// is under way (the training of the epoch, its validation, or the final test), which steps of the
// pass are covered, and the sums that these steps reported. A pass's steps have consecutive ids,
// and a closure has the id of its first step, so the ids that a cut leaves open tell which closures
// are left to run. The calls of an epoch are BeginPass(TRAINING), EndTraining, perhaps
// BeginPass(VALIDATION) and EndValidation, then EndEpoch.

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

// Thread-safe. Shared: the recovery holds the progress.
class TrainProgress {
 public:
  // The settings that must be the same in a process that continues the job, and where the job keeps
  // its recovery checkpoints, for messages.
  struct Job {
    JobSettings settings;
    std::string recovery_directory;
  };
  explicit TrainProgress(Job job) : job_(std::move(job)) {}

  // Checks that an earlier process saved the progress of a job with the same settings. Needs
  // neither data nor devices, so it comes before any change of tasks. Errors: FAILED_PRECONDITION
  // naming the keys that differ; DATA_LOSS.
  absl::Status CheckSettings(const proto::CoordinatorState& state) const;

  // Takes over the progress that an earlier process saved. Errors: FAILED_PRECONDITION for other
  // settings, other data or other devices; DATA_LOSS.
  absl::Status Load(const proto::CoordinatorState& state);

  // Returns the homes that `state` contains, which SetHomes was given before `state` was saved.
  // Changes nothing.
  static std::vector<uint32_t> HomesIn(const proto::CoordinatorState& state);

  Progress progress() const;
  // Examples and seconds of the epochs that are done.
  struct Totals {
    double examples = 0;
    double seconds = 0;
  };
  Totals totals() const;

  // The identity of a data set. A saved position in the data, and saved sums of an evaluation, are
  // valid only for data with the same identity.
  struct DataIdentity {
    int64_t length = 0;    // number of elements of the data set
    uint32_t content = 0;  // checksum of the data (ExpectedData.content)
    friend bool operator==(const DataIdentity&, const DataIdentity&) = default;
  };

  // A pass over data, and the part of the pass that an earlier process has run.
  struct Begun {
    ClosureId first;
    // The closures that are left to run are these, in ascending order, and those from `next` on. A
    // new pass has no open closures, and its `next` is `first`.
    std::vector<ClosureId> open;
    ClosureId next;
    // The closures of an evaluation that an earlier process has run, by their first steps.
    std::set<int64_t> evaluated;
    EpochMeter::Sums sums;  // sums of the closures that an earlier process has run
    // Returns whether the closure with the first step `step` and the id `first` + `step` is left to
    // run.
    bool IsLeft(int64_t step) const;
  };
  // Begins a pass over `data`, and returns where the pass continues if an earlier process has begun
  // it. `next` is the id that the coordinator would give to the next closure. The closures of a new
  // pass have ids from `next` on, but none that a closure of an abandoned pass may have had. If the
  // data of a test have changed, the test begins anew, and the log says so.
  Begun BeginPass(proto::TrainState::Pass pass, ClosureId next, const DataIdentity& data);
  // Notes a closure of the evaluation that is under way, by its first step, as done. Does nothing
  // in a training, whose closures a cut covers.
  void AddEvaluated(int64_t step, const std::vector<EpochMeter::Sums>& sums);
  // Ends the training of the epoch, all of whose steps are done; the next epoch begins at `data`.
  void EndTraining(int64_t steps, const DataPosition& data, const Totals& epoch,
                   const EpochMeter::Sums& sums);
  void EndValidation(const EpochMeter::Sums& sums);
  // Ends the epoch, whose validation and checkpoint are done.
  void EndEpoch();
  // The sums of the training and of the validation of one epoch. A part that is not done has no
  // sums.
  struct Results {
    std::optional<EpochMeter::Sums> trained, validated;
  };
  // Returns the results of the epoch that is under way.
  Results epoch_results() const;
  // Returns the results of the last epoch whose training is done.
  Results last_results() const;
  // Sets the homes of the slices, by slice id; empty: the homes follow from the job and its
  // cluster.
  void SetHomes(std::vector<uint32_t> homes);
  // Sets the devices of all workers, if the job takes all devices of each worker; empty: the job
  // names its devices. Called before Load.
  void SetDevices(std::vector<std::string> devices);
  // Sets the identity of the training data, before any split, and for messages the files that one
  // worker read. Called before Load.
  void SetData(DataIdentity data, const FilesOfReader& files);
  // Sets the progress of a training that began from the checkpoint `prefix`, not from a recovery
  // checkpoint.
  void SetProgress(const Progress& progress, const std::string& prefix);
  // Returns the progress of the checkpoint that the job began from; 0 steps if it began anew.
  Progress before() const;
  // Ends a training of which more is done than the job asks for: an epoch that is trained counts as
  // done without its validation, and the `updates` that were made of an epoch under way count as
  // steps. `data` is the position behind these steps, which have read `examples`.
  struct Excess {
    int64_t updates = 0;
    DataPosition data;
    double examples = 0;
  };
  void EndEarly(const Excess& excess);
  // Returns whether an earlier process has made the closure with the first step `step` of the epoch
  // under way. Called between Load and BeginPass.
  bool IsMade(int64_t step) const;
  // The last checkpoint that the job has saved or began from, by its prefix, and the step in it.
  struct SavedCheckpoint {
    std::string prefix;  // empty: none
    int64_t step = 0;
  };
  SavedCheckpoint checkpoint() const;
  // Notes the name of the checkpoint that will have the model after so many steps. Called before
  // the last of these steps begins, so that every recovery checkpoint that covers them all knows
  // the name, also one that is made before the checkpoint is saved.
  void PlanCheckpoint(const SavedCheckpoint& planned);
  SavedCheckpoint planned_checkpoint() const;
  // Notes that the checkpoint `prefix` has the present steps.
  void SetCheckpoint(const std::string& prefix);

  // Returns the bytes of a TrainState, in which the closures of `cut` are covered.
  std::string Save(const Cut& cut);
  // Returns the id below which no later cut reads the result of a closure of this pass: those are
  // durable, and their sums are known.
  ClosureId settled() const;
  // Returns the number of closures whose sums are kept one by one.
  size_t num_reported() const;

 private:
  // Returns the progress that a job with the same settings has saved. Errors: those of
  // CheckSettings.
  absl::StatusOr<proto::TrainState> Parse(const proto::CoordinatorState& state) const;
  // Returns what a user does to begin the training anew, as the end of a message.
  std::string StartAnew() const;
  absl::Status CheckDataLocked(const proto::TrainState& train) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Takes the sums of the closures of a training that the cut covers.
  void ReportLocked(const Cut& cut) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void EndPassLocked() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const Job job_;
  mutable Mutex mutex_;
  Progress progress_ ABSL_GUARDED_BY(mutex_);
  Progress before_ ABSL_GUARDED_BY(mutex_);  // steps and epochs of before the job
  SavedCheckpoint checkpoint_ ABSL_GUARDED_BY(mutex_);
  SavedCheckpoint planned_ ABSL_GUARDED_BY(mutex_);  // the checkpoint that is saved next
  Totals totals_ ABSL_GUARDED_BY(mutex_);
  std::vector<uint32_t> homes_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::string> devices_ ABSL_GUARDED_BY(mutex_);
  DataIdentity data_ ABSL_GUARDED_BY(mutex_);
  // The files of the training data, and the worker that read them.
  google::protobuf::RepeatedPtrField<proto::DataFile> data_files_ ABSL_GUARDED_BY(mutex_);
  std::string data_worker_ ABSL_GUARDED_BY(mutex_);
  // The results of the last epoch whose training is done.
  Results results_ ABSL_GUARDED_BY(mutex_);
  // True from EndTraining to EndEpoch.
  bool is_trained_ ABSL_GUARDED_BY(mutex_) = false;
  // The pass over data that is under way, and the identity of its data.
  proto::TrainState::Pass pass_ ABSL_GUARDED_BY(mutex_) = proto::TrainState::TRAINING;
  DataIdentity pass_data_ ABSL_GUARDED_BY(mutex_);
  // The id of the pass's first closure; 0: no pass is under way.
  ClosureId first_ ABSL_GUARDED_BY(mutex_);
  // Sums that an earlier process reported for this pass, and those of its durable closures.
  EpochMeter::Sums sums_before_ ABSL_GUARDED_BY(mutex_);
  // The closures of this evaluation that are done, with those of the earlier process, by their
  // first steps.
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
