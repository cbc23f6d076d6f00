#include "tests/support/stepwise_training.h"

#include <utility>
#include <variant>

#include "common/base/check.h"
#include "common/base/status.h"
#include "coordinator/api/coordinator_parts.h"
#include "coordinator/model/learning_rate.h"
#include "coordinator/model/model_programs.h"
#include "coordinator/strategy/make_strategy.h"
#include "coordinator/strategy/multi_worker_mirrored_strategy.h"

namespace cohort {

namespace {

constexpr char kPerceptron[] = R"({
  "name": "perceptron", "seed": 3,
  "model": {"class_name": "Sequential", "config": {"layers": [
    {"class_name": "Dense", "config": {"units": 24, "activation": "relu", "input_shape": [784]}},
    {"class_name": "Dropout", "config": {"rate": 0.4}},
    {"class_name": "Dense", "config": {"units": 10}}]}},
  "compile": {
    "optimizer": {"class_name": "Adam", "config": {"learning_rate": 0.005}},
    "loss": {"class_name": "SparseCategoricalCrossentropy", "config": {"from_logits": true}},
    "metrics": ["accuracy"]},
  "data": {
    "train": {"class_name": "SyntheticDigits", "config": {"seed": 1, "count": 1000}},
    "pipeline": [
      {"class_name": "Flatten", "config": {"component": "x"}},
      {"class_name": "Rescaling", "config": {"component": "x", "scale": 0.00392156862745098}}]},
  "fit": {"epochs": 1, "batch_size": 32}})";

}  // namespace

JobSpec PerceptronJob(const std::vector<std::string>& overrides) {
  absl::StatusOr<JobSpec> job = ParseJob(kPerceptron, "the test's job", overrides);
  COHORT_CHECK(job.ok(), "a test's job is one");
  return *std::move(job);
}

ClusterCoordinator::Options CoordinatorOptionsOf(const JobSpec& job) {
  ClusterCoordinator::Options options;
  options.job = job.name;
  options.settings = 1;
  options.seed = job.seed;
  options.homes = HomesOf(job.strategy);
  options.mirrored = job.strategy.type == kMultiWorkerMirrored;
  options.nccl_device = NcclDeviceOf(job.strategy);
  options.closures_in_flight = static_cast<int>(job.fit.closures_in_flight);
  return options;
}

StepwiseTraining::StepwiseTraining(ClusterCoordinator& coordinator, JobSpec job, int64_t examples)
    : coordinator_(coordinator), job_(std::move(job)), examples_(examples) {}

absl::Status StepwiseTraining::Begin() {
  proto::DatasetSpec spec;
  spec.mutable_source()->mutable_synthetic_digits()->set_seed(1);
  spec.mutable_source()->mutable_synthetic_digits()->set_count(examples_);
  spec.add_transforms()->mutable_batch()->set_size(job_.fit.batch_size);
  for (const proto::DatasetTransform& transform : PipelineTransforms(job_.data)) {
    *spec.add_transforms() = transform;
  }
  data_ = coordinator_.CreatePerWorkerDataset(spec);
  ASSIGN_OR_RETURN(const auto described, coordinator_.DescribeDataset(data_));
  ASSIGN_OR_RETURN(const ModelPrograms model, BuildPrograms(job_, described.element_spec()));
  if (!model.labels.empty()) {
    for (const proto::DatasetTransform& labels : model.labels) *spec.add_transforms() = labels;
    data_ = coordinator_.CreatePerWorkerDataset(spec);
    RETURN_IF_ERROR(coordinator_.DescribeDataset(data_).status());
  }
  ASSIGN_OR_RETURN(const auto strategy, MakeStrategy(job_.strategy));
  ASSIGN_OR_RETURN(const ClusterShape shape, coordinator_.ShapeFor(*strategy));
  ASSIGN_OR_RETURN(plan_, strategy->MakePlan(model, shape));
  RETURN_IF_ERROR(coordinator_.CreateVariables(plan_.variables));
  ASSIGN_OR_RETURN(program_, coordinator_.Register(plan_.train_step));
  return coordinator_.ResumeState().status();
}

absl::Status StepwiseTraining::Schedule() {
  const int64_t batches = (examples_ + job_.fit.batch_size - 1) / job_.fit.batch_size;
  ScheduleOptions closure;
  SplitInput split;
  split.dataset = data_;
  split.position.set_epoch(step_ / batches);
  split.position.set_element(step_ % batches);
  closure.input = std::move(split);
  const auto* rounds = std::get_if<SynchronousSpec>(&job_.strategy.consistency);
  const int64_t update = rounds == nullptr ? step_ : step_ / rounds->aggregate;
  closure.learning_rate = LearningRateAt(job_.compile.optimizer, update);
  closure.step = static_cast<uint64_t>(++step_);
  closure.gang = plan_.gangs;
  if (plan_.gangs || rounds != nullptr) closure.round.number = static_cast<uint64_t>(update + 1);
  if (rounds != nullptr) closure.round.aggregate = static_cast<uint32_t>(rounds->aggregate);
  ASSIGN_OR_RETURN(RemoteValue result, coordinator_.Schedule(program_, std::move(closure)));
  results_.push_back(std::move(result));
  return absl::OkStatus();
}

absl::StatusOr<std::vector<double>> StepwiseTraining::Losses() {
  RETURN_IF_ERROR(coordinator_.Join());
  std::vector<double> losses;
  for (const RemoteValue& result : results_) {
    ASSIGN_OR_RETURN(const FetchedTensors fetched, coordinator_.Fetch(result));
    losses.push_back(static_cast<double>(fetched[0].data<float>()[0]) /
                     static_cast<double>(fetched[1].data<float>()[0]));
  }
  return losses;
}

absl::StatusOr<std::vector<double>> StepwiseTraining::Run(int64_t steps) {
  for (int64_t i = 0; i < steps; ++i) RETURN_IF_ERROR(Schedule());
  return Losses();
}

absl::StatusOr<FetchedTensors> StepwiseTraining::RunOnce(const proto::Program& program) {
  ASSIGN_OR_RETURN(const ProgramHandle registered, coordinator_.Register(program));
  ScheduleOptions closure;
  closure.input = SplitInput{data_, {}};
  ASSIGN_OR_RETURN(const RemoteValue result, coordinator_.Schedule(registered, std::move(closure)));
  return coordinator_.Fetch(result);
}

absl::StatusOr<std::map<std::string, std::vector<float>>> StepwiseTraining::Values() {
  return ValuesIn(plan_.variables);
}

absl::StatusOr<std::map<std::string, std::vector<float>>> StepwiseTraining::CopyOf(uint32_t home) {
  std::vector<proto::VariableLayout> copy = plan_.variables;
  for (proto::VariableLayout& layout : copy) {
    layout.set_mirrored(false);  // of this home
    for (proto::SliceHome& slice : *layout.mutable_slices()) slice.set_ps(home);
  }
  return ValuesIn(copy);
}

absl::StatusOr<std::map<std::string, std::vector<float>>> StepwiseTraining::ValuesIn(
    absl::Span<const proto::VariableLayout> layouts) {
  std::map<std::string, std::vector<float>> values;
  for (const proto::VariableLayout& layout : layouts) {
    ASSIGN_OR_RETURN(const Tensor value, coordinator_.parts().ps->Read(layout));
    values[layout.name()] = {value.span<float>().begin(), value.span<float>().end()};
  }
  return values;
}

}  // namespace cohort
