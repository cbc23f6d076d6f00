#include "coordinator/train/trainer.h"

#include <algorithm>
#include <cmath>
#include <deque>
#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/base/log.h"
#include "common/base/status.h"
#include "common/program/update_rule.h"
#include "common/wire/error_detail.h"
#include "coordinator/api/coordinator_parts.h"
#include "coordinator/api/load_record.h"
#include "coordinator/job/pipeline_file.h"
#include "coordinator/metrics/metric_table.h"
#include "coordinator/model/learning_rate.h"
#include "coordinator/strategy/make_strategy.h"
#include "coordinator/strategy/variable_pieces.h"
#include "coordinator/train/adapt_pipeline.h"
#include "coordinator/train/data_checks.h"
#include "coordinator/train/exports.h"
#include "coordinator/train/init_weights.h"
#include "coordinator/train/job_settings.h"
#include "coordinator/train/model_file.h"

namespace cohort {

namespace {

std::vector<std::string> NamesOf(const std::vector<VariableSpec>& variables) {
  std::vector<std::string> names;
  for (const VariableSpec& variable : variables) names.push_back(variable.name);
  return names;
}

}  // namespace

Trainer::Trainer(World world, Waiter& waiter, ClusterCoordinator& coordinator, const JobSpec& job,
                 DataSources sources)
    : world_(world),
      waiter_(waiter),
      coordinator_(coordinator),
      job_(job),
      sources_(std::move(sources)),
      checkpoints_(
          world.files, coordinator,
          {job.checkpoint.directory, job.checkpoint.max_to_keep, job.checkpoint.weights_only}),
      progress_(std::make_shared<TrainProgress>(
          TrainProgress::Job{{SettingsText(job), job.model.file_form},
                             coordinator.recovery_directory(),
                             !job.checkpoint.directory.empty()})) {}

absl::StatusOr<TrainSummary> Trainer::Run() {
  // The settings are compared before anything else is done. Otherwise a job with another model
  // would fail later, in restoring its variables, with an error that does not tell the cause.
  ASSIGN_OR_RETURN(const std::optional<proto::CoordinatorState> left, coordinator_.LeftState());
  if (left.has_value()) RETURN_IF_ERROR(progress_->CheckSettings(*left));
  LogModelFile(job_.model);
  RETURN_IF_ERROR(PrepareData());
  RETURN_IF_ERROR(PrepareModel());
  RETURN_IF_ERROR(Restore());
  // Checkpoints that an earlier process left unfinished are removed before new ones are written.
  if (progress_->progress().epochs_done < job_.fit.epochs) checkpoints_.RemoveUnfinished();
  while (progress_->progress().epochs_done < job_.fit.epochs) {
    RETURN_IF_ERROR(RunEpoch(progress_->progress().epochs_done));
  }
  RETURN_IF_ERROR(TakeAverages());
  // The test data are read once, after the whole training.
  if (test_.has_value()) {
    ASSIGN_OR_RETURN(const EpochMeter::Sums sums, Evaluate(*test_, proto::TrainState::TEST));
    const EpochMeter::Reading reading = EpochMeter::ReadingOf(sums);
    summary_.test_loss = reading.loss;
    summary_.test_metrics = NamedMetrics(model_.metrics, model_.metric_sizes, reading.states);
    summary_.test_examples = std::llround(reading.examples);
  }
  RETURN_IF_ERROR(CompareData());
  RETURN_IF_ERROR(Export());
  SummarizeProgress();
  summary_.data = sources_.name;
  summary_.closures = coordinator_.stats();
  ASSIGN_OR_RETURN(summary_.ps, coordinator_.parts().ps->Stats());
  return summary_;
}

absl::StatusOr<proto::ElementSpec> Trainer::BatchOf(const proto::ElementSpec& example) const {
  proto::ElementSpec batch;
  for (const proto::ComponentSpec& component : example.components()) {
    // Axis 0 of a batch is the axis of the examples, whose number varies.
    proto::ComponentSpec& of_batch = *batch.add_components();
    of_batch = component;
    of_batch.clear_dims();
    of_batch.add_dims(-1);
    of_batch.mutable_dims()->MergeFrom(component.dims());
  }
  return TransformElement(batch, PipelineTransforms(job_.data));
}

absl::Status Trainer::PrepareData() {
  RETURN_IF_ERROR(CompletePipeline(world_.files, coordinator_, sources_.train, job_));
  if (HasMaps(job_.data)) checkpoints_.SetPreprocessing(PipelineToJson(job_.data));
  const proto::DatasetSpec raw = AllExamples(sources_.train, job_.data);
  ASSIGN_OR_RETURN(const proto::ExpectedData all,
                   coordinator_.DescribeDataset(coordinator_.CreatePerWorkerDataset(raw)));
  // Load() later compares the identity of the training data with that in the recovery checkpoint.
  progress_->SetData({all.cardinality(), all.content()},
                     {TaskName(WithoutIncarnation(all.worker())), all.files()});
  if (all.cardinality() == 0) return NoExamples("data.train", sources_.train);
  ASSIGN_OR_RETURN(const proto::ElementSpec batch, BatchOf(all.element_spec()));
  ASSIGN_OR_RETURN(model_, BuildPrograms(job_, batch));
  // If the model cannot be exported, the job ends before the training, not after it.
  RETURN_IF_ERROR(CheckExports(job_, {model_.predict, NamesOf(model_.variables)}));
  ASSIGN_OR_RETURN(const int64_t train_count,
                   TrainingExamples(all.cardinality(), job_.fit.validation_split));
  const int64_t evaluation_batch = job_.fit.validation_batch_size.value_or(job_.fit.batch_size);
  ASSIGN_OR_RETURN(train_,
                   MakeData(sources_.train, 0, train_count, job_.fit.batch_size, job_.fit.shuffle));
  // The examples that validation_split leaves out of the training are the validation data.
  if (train_count < all.cardinality()) {
    ASSIGN_OR_RETURN(validation_, MakeData(sources_.train, train_count, -1, evaluation_batch,
                                           /*shuffle=*/false));
  }
  if (sources_.test.has_value()) {
    ASSIGN_OR_RETURN(test_, MakeData(*sources_.test, 0, -1, evaluation_batch, /*shuffle=*/false));
    if (test_->pass.batches == 0) return NoExamples("data.test", *sources_.test);
    // The same programs read training and test batches.
    RETURN_IF_ERROR(CheckTestBatch({train_.element, IdxFilesOf(sources_.train)},
                                   {test_->element, IdxFilesOf(*sources_.test)}));
  }
  return absl::OkStatus();
}

absl::StatusOr<Trainer::Data> Trainer::MakeData(const proto::DatasetSource& source, int64_t skip,
                                                int64_t take, int64_t batch_size, bool shuffle) {
  proto::DatasetSpec spec;
  *spec.mutable_source() = source;
  if (skip > 0) spec.add_transforms()->set_skip(skip);
  if (take >= 0) spec.add_transforms()->set_take(take);
  if (shuffle) *spec.add_transforms()->mutable_shuffle() = ShuffleOf(job_.data, job_.seed);
  // The transforms of the data pipeline work on whole batches, so they follow the batch transform.
  spec.add_transforms()->mutable_batch()->set_size(batch_size);
  for (const proto::DatasetTransform& transform : PipelineTransforms(job_.data)) {
    *spec.add_transforms() = transform;
  }
  for (const proto::DatasetTransform& labels : model_.labels) *spec.add_transforms() = labels;
  Data data;
  data.pass.batch_size = batch_size;
  data.handle = coordinator_.CreatePerWorkerDataset(spec);
  ASSIGN_OR_RETURN(const proto::ExpectedData described, coordinator_.DescribeDataset(data.handle));
  data.pass.batches = described.cardinality();
  data.element = described.element_spec();
  data.content = described.content();
  return data;
}

absl::Status Trainer::PrepareModel() {
  RETURN_IF_ERROR(PlanVariables());
  // The programs refer to variables, so the variables must be made first.
  RETURN_IF_ERROR(coordinator_.CreateVariables(plan_.variables));
  ASSIGN_OR_RETURN(train_program_, coordinator_.Register(plan_.train_step));
  ASSIGN_OR_RETURN(eval_program_, coordinator_.Register(plan_.eval_step));
  return absl::OkStatus();
}

absl::Status Trainer::PlanVariables() {
  ASSIGN_OR_RETURN(const std::unique_ptr<const Strategy> strategy, MakeStrategy(job_.strategy));
  ASSIGN_OR_RETURN(ClusterShape shape, coordinator_.ShapeFor(*strategy));
  ASSIGN_OR_RETURN(shape.loads, ReadJobLoads(world_.files, job_));
  ASSIGN_OR_RETURN(plan_, strategy->MakePlan(model_, shape));
  for (const std::string& note : plan_.notes) Log(LogLevel::kInfo, "plan", {{"note", note}});
  progress_->SetDevices(shape.devices);
  // An earlier process of the job may have had another number of parameter servers.
  ASSIGN_OR_RETURN(const SliceStarts slices, coordinator_.LeftSlices());
  CutAt(slices, absl::MakeSpan(plan_.variables));
  if (!IsMeasured()) return absl::OkStatus();
  // The slices are still where an earlier process has put them, even if newer measured loads would
  // give other homes. So the homes are taken from the state that this process has saved.
  ASSIGN_OR_RETURN(const std::optional<proto::CoordinatorState> left, coordinator_.LeftState());
  if (left.has_value()) {
    PlaceAt(TrainProgress::HomesIn(*left), shape.ps, absl::MakeSpan(plan_.variables));
  }
  progress_->SetHomes(HomesOf(plan_.variables));
  return absl::OkStatus();
}

bool Trainer::IsMeasured() const {
  return plan_.homes == Role::kPs && job_.strategy.placement == "measured";
}

absl::Status Trainer::Restore() {
  ASSIGN_OR_RETURN(const std::optional<proto::CoordinatorState> left, coordinator_.ResumeState());
  if (left.has_value()) {
    RETURN_IF_ERROR(progress_->Load(*left));
    Log(LogLevel::kInfo, "training_resumed",
        {{"epochs_done", progress_->progress().epochs_done}, {"open", left->open_size()}});
    SaveProgressWithEachCut();
  } else {
    RETURN_IF_ERROR(RestoreCheckpoint());
  }
  RETURN_IF_ERROR(EndIfExceeded());
  if (!left.has_value()) return absl::OkStatus();
  // The training continues where the last recovery checkpoint left off, so the summary must include
  // what was done before.
  summary_.examples = progress_->totals().examples;
  summary_.train_time = absl::Seconds(progress_->totals().seconds);
  Summarize(progress_->last_results());
  return SaveIfTrained();
}

void Trainer::SaveProgressWithEachCut() {
  coordinator_.SetApplicationState(
      [progress = progress_](const Cut& cut) { return progress->Save(cut); });
}

absl::Status Trainer::RestoreCheckpoint() {
  while (true) {
    const uint64_t epoch = coordinator_.parts().cluster->epoch();
    std::optional<Progress> progress;
    if (!job_.checkpoint.restore.empty()) {
      ASSIGN_OR_RETURN(progress, checkpoints_.Restore(job_.checkpoint.restore, plan_.variables));
    }
    if (progress.has_value()) progress_->SetProgress(*progress, checkpoints_.latest());
    const bool initialized = !progress.has_value() && !job_.checkpoint.init_from.path.empty();
    if (initialized) {
      const absl::StatusOr<int64_t> steps =
          InitWeights(world_.files, job_, plan_.variables, *coordinator_.parts().ps);
      RETURN_IF_ERROR(Annotate(steps.status(), InitFromKey(job_)));
      // The optimizer goes on with its steps, and the job begins its epochs and its data anew.
      progress_->SetProgress({.global_step = *steps}, "");
    }
    const bool changed = progress.has_value() || initialized;
    // Not before the variables have the values that the progress tells. A process that is
    // interrupted until then leaves no recovery checkpoint, and the next one begins as it did.
    SaveProgressWithEachCut();
    // A process that takes over later must find measured homes in every checkpoint. And after a
    // loss, no closure that runs again would bring back the values of the restored checkpoint.
    if (changed || IsMeasured()) RETURN_IF_ERROR(coordinator_.MakeDurable());
    // A recovery since the restore has put the variables back to what they were before it.
    if (!changed || coordinator_.parts().cluster->epoch() == epoch) return absl::OkStatus();
  }
}

int64_t Trainer::StepsToLastMade() const {
  int64_t made = 0;
  for (int64_t step = 0; step < StepsOfEpoch(); step += job_.compile.steps_per_execution) {
    if (progress_->IsMade(step)) {
      made = std::min(step + job_.compile.steps_per_execution, StepsOfEpoch());
    }
  }
  return made;
}

absl::Status Trainer::EndIfExceeded() {
  const Progress done = progress_->progress();
  if (done.epochs_done < job_.fit.epochs) return absl::OkStatus();
  const int64_t steps = StepsToLastMade();
  const bool is_trained = progress_->epoch_results().trained.has_value();
  if (done.epochs_done == job_.fit.epochs && steps == 0 && !is_trained) return absl::OkStatus();
  // Asynchronous steps end in any order. Steps that were still open before the last finished step
  // are run now, so that the position in the data, from which a later process continues, has no
  // gaps before it.
  EpochMeter::Sums sums;
  if (steps > 0) {
    ASSIGN_OR_RETURN(sums, RunPass(TrainingPass(steps)));
  }
  const proto::IteratorPosition end = BatchAfter(done.data, steps, train_.pass);
  progress_->EndEarly({UpdatesOf(steps),
                       {end.epoch(), end.element() * train_.pass.batch_size},
                       EpochMeter::ReadingOf(sums).examples});
  const Progress now = progress_->progress();
  Log(LogLevel::kWarning, "epochs_exceeded",
      {{"epochs_done", now.epochs_done},
       {"steps", now.global_step},
       {"fit.epochs", job_.fit.epochs},
       {"effect",
        "nothing more is trained but steps that were open between steps that are done, and the job "
        "ends with the model as it is"},
       {"remedy", absl::StrCat("set fit.epochs above ", now.epochs_done, " to train on")}});
  return absl::OkStatus();
}

absl::Status Trainer::SaveIfTrained() {
  const Progress progress = progress_->progress();
  if (progress.epochs_done < job_.fit.epochs || !checkpoints_.IsSaving()) return absl::OkStatus();
  checkpoints_.RemoveUnfinished();
  return SaveCheckpoint(progress);
}

absl::Status Trainer::RunEpoch(int64_t epoch) {
  ProgressLine line;
  line.epoch = epoch + 1;
  line.epochs = job_.fit.epochs;
  if (!progress_->epoch_results().trained.has_value()) RETURN_IF_ERROR(TrainEpoch(line));
  // As in Keras, the validation data are evaluated after each epoch.
  if (validation_.has_value() && !progress_->epoch_results().validated.has_value()) {
    RETURN_IF_ERROR(ValidateEpoch());
  }
  Summarize(progress_->epoch_results());
  line.step = line.steps = StepsOfEpoch();
  line.values = {{"loss", *summary_.train_loss}};
  line.values.insert(line.values.end(), summary_.train_metrics.begin(),
                     summary_.train_metrics.end());
  if (summary_.validation_loss.has_value()) {
    line.values.emplace_back("val_loss", *summary_.validation_loss);
    for (const auto& [name, value] : summary_.validation_metrics) {
      line.values.emplace_back(absl::StrCat("val_", name), value);
    }
  }
  bar_.Finish(line);
  // A checkpoint is always saved after the last epoch.
  const bool last = epoch + 1 == job_.fit.epochs;
  const int64_t every = std::max<int64_t>(job_.checkpoint.every_epochs, 1);
  if (checkpoints_.IsSaving() && (last || (epoch + 1) % every == 0)) {
    Progress progress = progress_->progress();
    ++progress.epochs_done;  // the saved progress counts the training epoch that is about to end
    RETURN_IF_ERROR(SaveCheckpoint(progress));
  }
  // The training epoch ends only after its checkpoint. If the process is lost before EndEpoch(),
  // the next process continues from a state in which the epoch has not ended, and saves the
  // checkpoint unless this state already names it.
  progress_->EndEpoch();
  return absl::OkStatus();
}

Trainer::PassOptions Trainer::TrainingPass(int64_t steps) const {
  PassOptions pass;
  pass.data = &train_;
  pass.program = train_program_;
  pass.begin = progress_->progress().data;
  pass.steps = steps;
  pass.first_step = progress_->progress().global_step;
  return pass;
}

absl::Status Trainer::TrainEpoch(ProgressLine& line) {
  PassOptions pass = TrainingPass(StepsOfEpoch());
  pass.progress = &line;
  const absl::Time start = world_.clock.Now();
  ASSIGN_OR_RETURN(const EpochMeter::Sums sums, RunPass(pass));
  // The measured time of a training epoch does not include the validation.
  line.elapsed = world_.clock.Now() - start;
  const double examples = EpochMeter::ReadingOf(sums).examples;
  summary_.train_time += line.elapsed;
  summary_.epoch_times.push_back(line.elapsed);
  summary_.examples += examples;
  // A training epoch may end in the middle of the data. The next one continues at the batch `end`.
  const proto::IteratorPosition end = BatchAfter(pass.begin, pass.steps, train_.pass);
  progress_->EndTraining(UpdatesOf(pass.steps),
                         {end.epoch(), end.element() * train_.pass.batch_size},
                         {examples, absl::ToDoubleSeconds(line.elapsed)}, sums);
  return absl::OkStatus();
}

absl::Status Trainer::ValidateEpoch() {
  ASSIGN_OR_RETURN(const EpochMeter::Sums sums,
                   Evaluate(*validation_, proto::TrainState::VALIDATION));
  progress_->EndValidation(sums);
  return absl::OkStatus();
}

void Trainer::Summarize(const TrainProgress::Results& results) {
  if (results.trained.has_value()) {
    const EpochMeter::Reading reading = EpochMeter::ReadingOf(*results.trained);
    summary_.train_loss = reading.loss;
    summary_.train_metrics = NamedMetrics(model_.metrics, model_.metric_sizes, reading.states);
  }
  if (results.validated.has_value()) {
    const EpochMeter::Reading reading = EpochMeter::ReadingOf(*results.validated);
    summary_.validation_loss = reading.loss;
    summary_.validation_metrics = NamedMetrics(model_.metrics, model_.metric_sizes, reading.states);
  }
}

void Trainer::SummarizeProgress() {
  const Progress now = progress_->progress();
  const Progress before = progress_->before();
  summary_.epochs = now.epochs_done - before.epochs_done;
  summary_.steps = now.global_step - before.global_step;
  summary_.global_step = now.global_step;
  const TrainProgress::SavedCheckpoint saved = progress_->checkpoint();
  // The summary does not name a checkpoint that someone has removed or damaged since it was saved.
  if (saved.step != now.global_step || !checkpoints_.IsIntact(saved.prefix)) return;
  summary_.checkpoint = saved.prefix;
}

absl::Status Trainer::TakeAverages() {
  if (ParameterOf(model_.update_rule, "use_ema") == 0) return absl::OkStatus();
  std::vector<proto::VariableLayout> averaged;
  // All variables that the optimizer trains have moving averages. Some may have a rule of their
  // own, such as the biases under Muon.
  for (const proto::VariableLayout& layout : plan_.variables) {
    if (layout.rule().op() != "assign_add") averaged.push_back(layout);
  }
  return coordinator_.AssignAverages(averaged);
}

int64_t Trainer::StepsOfEpoch() const {
  return job_.fit.steps_per_epoch.value_or(train_.pass.batches);
}

int64_t Trainer::StepsOfRound() const {
  const SynchronousSpec* const synchronous = job_.strategy.synchronous();
  return synchronous == nullptr ? 1 : synchronous->aggregate + synchronous->backup_steps;
}

int64_t Trainer::UpdatesOf(int64_t steps) const {
  return (steps + StepsOfRound() - 1) / StepsOfRound();
}

// Sets the round of a closure. If the last round of a training epoch has fewer steps than a full
// round, it has fewer backup steps first.
void Trainer::SetRound(const PassOptions& options, int64_t step, ScheduleOptions& closure) const {
  const SynchronousSpec* const synchronous = job_.strategy.synchronous();
  // Each gang is an update of its own, so the number of its round is that of the update.
  if (plan_.gangs) {
    closure.gang = true;
    closure.round.number = static_cast<uint64_t>(options.first_step + step + 1);
  }
  if (synchronous == nullptr) return;
  const int64_t round = step / StepsOfRound();
  const int64_t steps = std::min(StepsOfRound(), options.steps - round * StepsOfRound());
  closure.round.number = static_cast<uint64_t>(options.first_step + round + 1);
  // A round must not wait for more steps than the training epoch has left.
  closure.round.aggregate = static_cast<uint32_t>(std::min(synchronous->aggregate, steps));
}

LaterStep Trainer::StepOf(const PassOptions& options, int64_t step) const {
  LaterStep made;
  made.position = BatchAfter(options.begin, step, options.data->pass);
  if (options.training()) {
    // All steps of a synchronous round belong to the same update and have its learning rate.
    made.learning_rate =
        LearningRateAt(job_.compile.optimizer, options.first_step + step / StepsOfRound());
  }
  return made;
}

absl::StatusOr<RemoteValue> Trainer::ScheduleSteps(const PassOptions& options,
                                                   Execution execution) {
  ScheduleOptions closure;
  const LaterStep first = StepOf(options, execution.first);
  closure.input = SplitInput{options.data->handle, first.position};
  closure.learning_rate = first.learning_rate;
  // Steps are numbered across training epochs. The backup steps of synchronous rounds
  // (strategy.consistency.backup_steps) are counted as well.
  closure.step = static_cast<uint64_t>(options.first_step * StepsOfRound() + execution.first + 1);
  for (int64_t i = 1; i < execution.steps; ++i) {
    closure.later_steps.push_back(StepOf(options, execution.first + i));
  }
  if (options.training()) SetRound(options, execution.first, closure);
  return coordinator_.Schedule(options.program, std::move(closure));
}

absl::StatusOr<EpochMeter::Sums> Trainer::RunPass(const PassOptions& options) {
  auto meter = std::make_shared<EpochMeter>();
  const TrainProgress::Begun begun = progress_->BeginPass(
      options.kind, coordinator_.NextId(), {options.data->pass.batches, options.data->content});
  meter->Add({begun.sums});
  const absl::Time start = world_.clock.Now();
  // A result travels only as long as a handle to it exists, and a cut reads the results of the
  // steps that it covers. So a handle is held until no later cut can read its result.
  std::deque<std::pair<ClosureId, RemoteValue>> results;
  bool is_first = true;
  Execution next;
  for (; next.first < options.steps; next.first += next.steps) {
    next.steps = std::min(job_.compile.steps_per_execution, options.steps - next.first);
    const ClosureId id{begun.first.value + static_cast<uint64_t>(next.first)};
    // Closures that an earlier process left open keep their ids. Closures that are done are skipped
    // with their ids.
    if (!begun.IsLeft(next.first)) continue;
    // A checkpoint of this epoch that an earlier process has saved lacks this run of the step.
    if (options.training() && std::exchange(is_first, false)) {
      RETURN_IF_ERROR(PlanCheckpoint(options.first_step + UpdatesOf(options.steps)));
    }
    if (coordinator_.NextId() < id) coordinator_.SkipTo(id);
    ASSIGN_OR_RETURN(RemoteValue result, ScheduleSteps(options, next));
    // The callback runs on a transport thread, and may be called after the end of this pass.
    result.state().OnReady(
        [meter, watch = options.training() ? loss_watch_ : nullptr, progress = progress_,
         first = next.first, update = options.first_step + UpdatesOf(next.first + 1),
         steps = static_cast<size_t>(next.steps)](const absl::StatusOr<FetchedTensors>& fetches) {
          const std::vector<EpochMeter::Sums> made = EpochMeter::StepsOf(fetches, steps);
          if (watch != nullptr) watch->See(update, made);
          progress->AddEvaluated(first, made);
          meter->Add(made);
        });
    results.emplace_back(id, std::move(result));
    const ClosureId settled = progress_->settled();
    while (!results.empty() && results.front().first < settled &&
           results.front().second.state().IsReady()) {
      results.pop_front();
    }
    // The progress bar shows the steps that have reported, not the steps that are scheduled.
    if (options.progress != nullptr) {
      const EpochMeter::Reading now = meter->Read();
      options.progress->step = now.steps;
      options.progress->steps = options.steps;
      options.progress->elapsed = world_.clock.Now() - start;
      options.progress->values = {{"loss", now.loss}};
      bar_.Update(*options.progress);
    }
  }
  const ClosureId behind{begun.first.value + static_cast<uint64_t>(options.steps)};
  // Later closures must not get ids of this pass, even if the last closures of the pass were
  // skipped.
  if (coordinator_.NextId() < behind) coordinator_.SkipTo(behind);
  RETURN_IF_ERROR(coordinator_.Join());
  return meter->sums();
}

absl::StatusOr<EpochMeter::Sums> Trainer::Evaluate(const Data& data, proto::TrainState::Pass kind) {
  PassOptions pass;
  pass.kind = kind;
  pass.data = &data;
  pass.program = eval_program_;
  pass.steps = data.pass.batches;
  return RunPass(pass);
}

absl::Status Trainer::CompareData() {
  // Workers that joined after PrepareData may have other data. If so, the data that the job was
  // trained on may be the wrong ones.
  RETURN_IF_ERROR(coordinator_.CompareDataset(train_.handle));
  return test_.has_value() ? coordinator_.CompareDataset(test_->handle) : absl::OkStatus();
}

absl::Status Trainer::SaveCheckpoint(const Progress& progress) {
  if (IsSaved()) return absl::OkStatus();
  if (!IsOfStep(progress_->planned_checkpoint(), progress.global_step)) {
    RETURN_IF_ERROR(PlanCheckpoint(progress.global_step));
    // The planned name is saved first, so that a process that takes over after the checkpoint was
    // saved knows the checkpoint.
    RETURN_IF_ERROR(coordinator_.MakeDurable());
  }
  std::string prefix = progress_->planned_checkpoint().prefix;
  // An earlier process may have saved this checkpoint without recording it. If this process has run
  // steps since, it has chosen another name (has_planned_).
  if (!has_planned_ && checkpoints_.Holds(prefix, progress)) {
    RETURN_IF_ERROR(checkpoints_.Adopt(prefix));
  } else {
    ASSIGN_OR_RETURN(prefix, checkpoints_.Save(progress, plan_.variables));
  }
  progress_->SetCheckpoint(prefix);
  // The last checkpoint is recorded in a recovery checkpoint now. Otherwise, if this process is
  // killed during the test, the next process might not know it, because a short test makes no
  // recovery checkpoint of its own.
  if (progress.epochs_done >= job_.fit.epochs && test_.has_value()) coordinator_.MakeDurableSoon();
  return absl::OkStatus();
}

absl::Status Trainer::PlanCheckpoint(int64_t step) {
  if (!checkpoints_.IsSaving()) return absl::OkStatus();
  ASSIGN_OR_RETURN(const std::string prefix, checkpoints_.UnusedPrefix(step));
  progress_->PlanCheckpoint({prefix, step});
  has_planned_ = true;
  return absl::OkStatus();
}

bool Trainer::IsOfStep(const TrainProgress::SavedCheckpoint& checkpoint, int64_t step) const {
  const std::string here = JoinPath(job_.checkpoint.directory, BaseName(checkpoint.prefix));
  return checkpoint.step == step && checkpoint.prefix == here;
}

bool Trainer::IsSaved() const {
  const int64_t step = progress_->progress().global_step;
  if (step == progress_->before().global_step) return true;  // nothing was trained
  const TrainProgress::SavedCheckpoint saved = progress_->checkpoint();
  return IsOfStep(saved, step) && checkpoints_.IsIntact(saved.prefix);
}

absl::Status Trainer::Export() {
  std::map<std::string, const proto::VariableLayout*> layouts;
  for (const proto::VariableLayout& layout : plan_.variables) layouts[layout.name()] = &layout;
  // Another coordinator that has taken over exports its own model to the same paths.
  if (!job_.export_to.Files().empty()) RETURN_IF_ERROR(coordinator_.CheckHeld());
  PsControl& ps = *coordinator_.parts().ps;
  const auto read = [&](const std::string& name) { return ps.Read(*layouts.at(name)); };
  const auto read_slot = [&](const proto::VariableLayout& variable, const std::string& slot) {
    return ps.ReadSlot(variable, slot);
  };
  RETURN_IF_ERROR(WriteExports(
      world_.files, job_, {plan_.predict, NamesOf(model_.variables)},
      {read, {plan_.variables, progress_->progress().global_step, read_slot}, world_.clock.Now()}));
  summary_.model = job_.export_to.onnx;
  return absl::OkStatus();
}

}  // namespace cohort
