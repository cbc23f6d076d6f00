#pragma once

// Keras's fit and evaluate over a cluster. Every closure names the batch that it reads (epoch,
// index of the batch). So a retried closure reads the same examples again, an epoch sees each
// training example exactly once with any number of workers, and an evaluation sees each test
// example exactly once. An epoch is scheduled as a whole and joined. If the process of a trainer is
// lost, the trainer of the next process continues from the last recovery checkpoint, within an
// epoch, its validation or the final test (train_progress.h).

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "coordinator/api/checkpoint_manager.h"
#include "coordinator/api/cluster_coordinator.h"
#include "coordinator/job/job_spec.h"
#include "coordinator/strategy/strategy.h"
#include "coordinator/train/data_sources.h"
#include "coordinator/train/epoch_meter.h"
#include "coordinator/train/progress_bar.h"
#include "coordinator/train/train_progress.h"
#include "coordinator/train/train_summary.h"

namespace cohort {

// Thread-compatible; blocks on the coordinator's waiter.
class Trainer {
 public:
  Trainer(World world, Waiter& waiter, ClusterCoordinator& coordinator, const JobSpec& job,
          DataSources sources);

  // Builds the programs, makes or restores the variables, trains, evaluates, saves and exports.
  // Errors: INVALID_ARGUMENT if the job does not fit its data, and the errors of the steps'
  // closures, of checkpoints and of files.
  absl::StatusOr<TrainSummary> Run();

 private:
  // A batched data set.
  struct Data {
    DatasetHandle handle;
    PassShape pass;
    proto::ElementSpec element;  // type of a batch of the data set
    uint32_t content = 0;        // checksum of the source's data
  };
  struct PassOptions {
    const Data* data = nullptr;
    ProgramHandle program;
    DataPosition begin;  // position of the pass's first batch
    int64_t steps = 0;
    int64_t first_step = 0;  // the number of updates (global step) before the pass
    ProgressLine* progress = nullptr;
    proto::TrainState::Pass kind = proto::TrainState::TRAINING;
    bool training() const { return kind == proto::TrainState::TRAINING; }
  };

  absl::Status PrepareData();
  // Returns the type of a batch of examples of type `example`, after the job's pipeline.
  absl::StatusOr<proto::ElementSpec> BatchOf(const proto::ElementSpec& example) const;
  absl::StatusOr<Data> MakeData(const proto::DatasetSource& source, int64_t skip, int64_t take,
                                int64_t batch_size, bool shuffle);
  absl::Status PrepareModel();
  absl::Status PlanVariables();
  // Returns whether the homes of slices follow from an earlier run's measurements.
  bool IsMeasured() const;
  // Restores variables from a recovery checkpoint if there is one, else from the checkpoint that
  // the job names, if any.
  absl::Status Restore();
  // Begins the training from checkpoint.restore, if the job names it, and makes the values durable.
  absl::Status RestoreCheckpoint();
  // Lets each recovery checkpoint save the progress. Called before any step runs.
  void SaveProgressWithEachCut();
  // Ends the training if more is trained than fit.epochs asks for, and logs a warning.
  absl::Status EndIfExceeded();
  // Returns the number of steps of the epoch under way up to the last one that an earlier process
  // has made; 0 if there is none.
  int64_t StepsToLastMade() const;
  // Saves what an earlier process has trained to its end, if there is no checkpoint of it.
  absl::Status SaveIfTrained();
  // Trains, validates and saves the epoch. Leaves out the parts that an earlier process has done.
  absl::Status RunEpoch(int64_t epoch);
  absl::Status TrainEpoch(ProgressLine& line);
  // Returns the pass over the training data of the epoch under way, up to step `steps`.
  PassOptions TrainingPass(int64_t steps) const;
  absl::Status ValidateEpoch();
  // Replaces the model's variables by their averages if the optimizer uses use_ema, as Keras's fit
  // does at its end.
  absl::Status TakeAverages();
  int64_t StepsOfEpoch() const;
  // Returns the number of steps that make one update: a synchronous round's `aggregate` and
  // `backup_steps`; 1 if each step is an update.
  int64_t StepsOfRound() const;
  // Returns the number of updates that `steps` steps of an epoch make.
  int64_t UpdatesOf(int64_t steps) const;
  void SetRound(const PassOptions& options, int64_t step, ScheduleOptions& closure) const;
  // Returns the batch that a step of a pass reads, and the learning rate of the step.
  LaterStep StepOf(const PassOptions& options, int64_t step) const;
  // Steps of a pass that one closure runs one after another.
  struct Execution {
    int64_t first = 0;
    int64_t steps = 1;
  };
  absl::StatusOr<RemoteValue> ScheduleSteps(const PassOptions& options, Execution execution);
  absl::StatusOr<EpochMeter::Sums> RunPass(const PassOptions& options);
  absl::StatusOr<EpochMeter::Sums> Evaluate(const Data& data, proto::TrainState::Pass kind);
  // Puts the results of the last epoch into the summary.
  void Summarize(const TrainProgress::Results& results);
  // Puts the steps, the epochs and the last checkpoint into the summary.
  void SummarizeProgress();
  // Asks the workers that came while the job ran for their data. Errors: those of
  // ClusterCoordinator::CompareDataset.
  absl::Status CompareData();
  // Saves a checkpoint that records `progress`, unless the job has saved one of these steps before.
  absl::Status SaveCheckpoint(const Progress& progress);
  // Chooses the name of the checkpoint that will have the model after `step` steps.
  absl::Status PlanCheckpoint(int64_t step);
  bool IsSaved() const;
  // Returns whether the checkpoint has the step `step` and lies in checkpoint.directory. The job
  // file may name another directory than it did before.
  bool IsOfStep(const TrainProgress::SavedCheckpoint& checkpoint, int64_t step) const;
  absl::Status Export();
  std::vector<std::pair<std::string, double>> NamedMetrics(
      const EpochMeter::Reading& reading) const;

  const World world_;
  Waiter& waiter_;
  ClusterCoordinator& coordinator_;
  const JobSpec& job_;
  const DataSources sources_;
  Data train_;
  std::optional<Data> validation_, test_;
  ModelPrograms model_;
  Plan plan_;
  ProgramHandle train_program_, eval_program_;
  CheckpointManager checkpoints_;
  // Shared with the recovery, which saves the progress.
  const std::shared_ptr<TrainProgress> progress_;
  const std::shared_ptr<LossWatch> loss_watch_ = std::make_shared<LossWatch>();
  // True: this process has chosen the name of the checkpoint that is saved next.
  bool has_planned_ = false;
  TrainSummary summary_;
  ProgressBar bar_;
};

}  // namespace cohort
