#pragma once

// Keras's fit and evaluate over a cluster. Every closure names the batch that it reads (number of
// the pass over the data, index of the batch). So a retried closure reads the same examples again,
// a training epoch sees each training example exactly once with any number of workers, and an
// evaluation sees each test example exactly once. All closures of a training epoch are scheduled,
// and then joined. If the coordinator's process is lost, the trainer of the next process continues
// from the last recovery checkpoint, in the middle of a training epoch, its validation or the final
// test (train_progress.h). Here "epoch" means Keras's epoch.

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "coordinator/api/checkpoint_manager.h"
#include "coordinator/api/cluster_coordinator.h"
#include "coordinator/job/job_spec.h"
#include "coordinator/model/model_programs.h"
#include "coordinator/strategy/strategy.h"
#include "coordinator/train/data_sources.h"
#include "coordinator/train/epoch_meter.h"
#include "coordinator/train/progress_bar.h"
#include "coordinator/train/train_progress.h"
#include "coordinator/train/train_summary.h"

namespace cohort {

// The training of one job, from the data to the exported model. Thread-compatible; blocks on the
// coordinator's waiter.
class Trainer {
 public:
  Trainer(World world, Waiter& waiter, ClusterCoordinator& coordinator, const JobSpec& job,
          DataSources sources);

  // Builds the programs, makes or restores the variables, trains, evaluates, saves and exports.
  // Errors: INVALID_ARGUMENT if the job does not suit its data; those of closures, checkpoints and
  // files.
  absl::StatusOr<TrainSummary> Run();

 private:
  // A batched data set of the job: training, validation or test data.
  struct Data {
    DatasetHandle handle;
    PassShape pass;
    proto::ElementSpec element;  // type of a batch of the data set
    uint32_t content = 0;        // checksum of the data set's content (ExpectedData.content)
  };
  struct PassOptions {
    const Data* data = nullptr;
    ProgramHandle program;
    DataPosition begin;  // position in the data of the first batch that the pass reads
    int64_t steps = 0;
    int64_t first_step = 0;  // number of updates (global step) that were made before the pass
    ProgressLine* progress = nullptr;
    proto::TrainState::Pass kind = proto::TrainState::TRAINING;
    bool training() const { return kind == proto::TrainState::TRAINING; }
  };

  absl::Status PrepareData();
  // Returns the type of a batch of examples of type `example`, after the transforms of the job's
  // data pipeline.
  absl::StatusOr<proto::ElementSpec> BatchOf(const proto::ElementSpec& example) const;
  absl::StatusOr<Data> MakeData(const proto::DatasetSource& source, int64_t skip, int64_t take,
                                int64_t batch_size, bool shuffle);
  absl::Status PrepareModel();
  absl::Status PlanVariables();
  // Returns whether the strategy places slices by the loads that an earlier run has measured.
  bool IsMeasured() const;
  // Restores the variables and the progress from a recovery checkpoint if there is one, else from
  // the checkpoint that the job names, if it names one.
  absl::Status Restore();
  // Restores the variables from checkpoint.restore, if the job names it, and makes the restored
  // values durable.
  absl::Status RestoreCheckpoint();
  // Lets each recovery checkpoint also save the progress. Called before any step runs.
  void SaveProgressWithEachCut();
  // Ends the training, with a warning in the log, if an earlier process has already trained more
  // than fit.epochs asks for.
  absl::Status EndIfExceeded();
  // Returns the number of steps of the training epoch under way, up to the last step that an
  // earlier process has run; 0 if it has run none.
  int64_t StepsToLastMade() const;
  // Saves a checkpoint if an earlier process has done all training but has not saved its result.
  absl::Status SaveIfTrained();
  // Trains, validates and saves training epoch number `epoch`, without the parts that an earlier
  // process has done.
  absl::Status RunEpoch(int64_t epoch);
  absl::Status TrainEpoch(ProgressLine& line);
  // Returns a pass over the training data that begins where the present epoch began and has `steps`
  // steps.
  PassOptions TrainingPass(int64_t steps) const;
  absl::Status ValidateEpoch();
  // Replaces the model's variables by their moving averages if the optimizer uses use_ema, as Keras
  // does at the end of fit.
  absl::Status TakeAverages();
  int64_t StepsOfEpoch() const;
  // Returns the number of steps that make one update: `aggregate` + `backup_steps` of a synchronous
  // round, or 1 if each step is an update.
  int64_t StepsOfRound() const;
  // Returns the number of updates that `steps` steps of a training epoch make.
  int64_t UpdatesOf(int64_t steps) const;
  void SetRound(const PassOptions& options, int64_t step, ScheduleOptions& closure) const;
  // Returns the batch that step number `step` of a pass reads, and its learning rate.
  LaterStep StepOf(const PassOptions& options, int64_t step) const;
  // The steps of a pass that one closure runs, one after another.
  struct Execution {
    int64_t first = 0;
    int64_t steps = 1;
  };
  absl::StatusOr<RemoteValue> ScheduleSteps(const PassOptions& options, Execution execution);
  absl::StatusOr<EpochMeter::Sums> RunPass(const PassOptions& options);
  absl::StatusOr<EpochMeter::Sums> Evaluate(const Data& data, proto::TrainState::Pass kind);
  // Copies the losses and metrics of a training epoch to the summary.
  void Summarize(const TrainProgress::Results& results);
  // Copies the numbers of steps and epochs, and the last checkpoint, to the summary.
  void SummarizeProgress();
  // Asks the workers that joined while the job ran which data they read, and compares these with
  // the data of the training. Errors: those of ClusterCoordinator::CompareDataset.
  absl::Status CompareData();
  // Saves a checkpoint that records `progress`, unless the job has already saved one after this
  // number of steps.
  absl::Status SaveCheckpoint(const Progress& progress);
  // Chooses the name of the checkpoint that will have the model after `step` steps.
  absl::Status PlanCheckpoint(int64_t step);
  bool IsSaved() const;
  // Returns whether the checkpoint has step `step` and lies in checkpoint.directory. An earlier
  // process may have saved it to another directory, which the job file named then.
  bool IsOfStep(const TrainProgress::SavedCheckpoint& checkpoint, int64_t step) const;
  absl::Status Export();

  const World world_;
  Waiter& waiter_;
  ClusterCoordinator& coordinator_;
  JobSpec job_;  // its data pipeline is completed first
  const DataSources sources_;
  Data train_;
  std::optional<Data> validation_, test_;
  ModelPrograms model_;
  Plan plan_;
  ProgramHandle train_program_, eval_program_;
  CheckpointManager checkpoints_;
  // Shared with the recovery, which saves the progress in each recovery checkpoint.
  const std::shared_ptr<TrainProgress> progress_;
  const std::shared_ptr<LossWatch> loss_watch_ = std::make_shared<LossWatch>();
  // Whether this process has chosen the name of the checkpoint that is saved next.
  bool has_planned_ = false;
  TrainSummary summary_;
  ProgressBar bar_;
};

}  // namespace cohort
