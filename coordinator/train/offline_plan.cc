#include "coordinator/train/offline_plan.h"

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "common/base/status.h"
#include "common/tensor/dtype.h"
#include "coordinator/model/loss.h"
#include "coordinator/model/model.h"
#include "coordinator/model/onnx_export.h"
#include "coordinator/model/optimizer.h"
#include "coordinator/strategy/make_strategy.h"
#include "coordinator/strategy/memory_need.h"
#include "coordinator/train/data_checks.h"

namespace cohort {

namespace {

// An input of the model. The n-th input reads the n-th component of an example.
struct ModelInput {
  const InputType& type;
  bool is_looked_up = false;  // some layer uses the input as ids
};

// Returns the type of a batch of examples of this shape; the dimension -1 stands for the batch
// size.
proto::ComponentSpec Batched(DType dtype, absl::Span<const int64_t> example) {
  proto::ComponentSpec component;
  component.set_dtype(static_cast<int32_t>(dtype));
  component.add_dims(-1);
  for (const int64_t dim : example) component.add_dims(dim);
  return component;
}

// Returns whether the source gives digits of MNIST's form.
bool HasDigits(const DataSourceSpec& source) {
  if (const auto* mnist = std::get_if<MnistSpec>(&source)) return mnist->images.empty();
  return std::holds_alternative<SyntheticDigitsSpec>(source);
}

// Returns the type of a batch of digits before the pipeline: images and class numbers.
proto::ElementSpec Digits() {
  proto::ElementSpec element;
  *element.add_components() = Batched(DType::kUint8, {28, 28});
  *element.add_components() = Batched(DType::kUint8, {});
  return element;
}

// Returns the type of a batch of click logs before the pipeline: 13 numbers, and an id for each
// category and the label.
proto::ElementSpec Clicks(const ClickLogSpec& clicks) {
  proto::ElementSpec element;
  for (const std::string& name : ColumnNames(clicks)) {
    proto::ComponentSpec& component = *element.add_components();
    component = name == "dense" ? Batched(DType::kFloat32, {13}) : Batched(DType::kInt32, {});
    component.set_name(name);
  }
  return element;
}

// Returns the model's inputs, which must be declared.
std::vector<ModelInput> InputsOf(const ModelSpec& model) {
  std::vector<ModelInput> inputs;
  for (const size_t input : model.inputs) {
    const auto looks_up = [&](const LayerCall& call) {
      return model.layers[call.layer].type->kind == LayerKind::kLookup &&
             call.inputs[0].tensor.call == input;
    };
    inputs.push_back({*model.layers[model.calls[input].layer].input(),
                      std::any_of(model.calls.begin(), model.calls.end(), looks_up)});
  }
  return inputs;
}

// Returns whether the pipeline turns the component's class numbers into one-hot rows.
bool IsEncoded(const JobSpec& job, size_t component) {
  return std::any_of(job.data.pipeline.begin(), job.data.pipeline.end(),
                     [&](const TransformSpec& transform) {
                       return transform.kind == TransformSpec::Kind::kCategoryEncoding &&
                              transform.component == component;
                     });
}

// Returns the type of a component of class numbers.
proto::ComponentSpec Classes() { return Batched(DType::kUint8, {}); }

// Returns the type of a component of the data that this input of the model can read.
proto::ComponentSpec Readable(const ModelInput& input) {
  // An input that is looked up may be declared as float32, the default; its data are integers in
  // any case.
  const bool is_id = input.type.dtype == DType::kInt32 || input.type.dtype == DType::kInt64;
  const DType dtype = input.is_looked_up && !is_id ? DType::kInt32 : input.type.dtype;
  return Batched(dtype, input.type.shape);
}

// Returns the type of labels that the loss can read: class numbers, or as many numbers per example
// as the model's output has.
proto::ComponentSpec Labels(const JobSpec& job, const Shape& output) {
  if (TakesClasses(job.compile.loss) || output.rank() != 1) return Classes();
  return Batched(DType::kFloat32, output.dims());
}

// Returns whether the job file alone determines the type of the examples of `source`.
bool TypeIsKnown(const DataSourceSpec& source) {
  return HasDigits(source) || std::holds_alternative<ClickLogSpec>(source);
}

// Returns the number of components of an example of `source`.
size_t NumComponents(const DataSourceSpec& source) {
  const auto* idx = std::get_if<IdxSpec>(&source);
  return idx == nullptr ? ColumnNames(source).size() : idx->paths.size();
}

// Returns whether ExpectedBatch() can tell the shapes, because the data source has fixed shapes or
// the model declares them.
bool ShapesAreKnown(const JobSpec& job) {
  if (TypeIsKnown(job.data.train)) return true;
  const std::vector<ModelInput> inputs = InputsOf(job.model);
  return !inputs.empty() && std::all_of(inputs.begin(), inputs.end(), [](const ModelInput& input) {
    const std::vector<int64_t>& shape = input.type.shape;
    return input.type.has_shape && std::count(shape.begin(), shape.end(), -1) == 0;
  });
}

// Returns the type of a batch of `source` after the job's pipeline. Requires TypeIsKnown().
absl::StatusOr<proto::ElementSpec> KnownBatch(const JobSpec& job, const DataSourceSpec& source) {
  const auto* clicks = std::get_if<ClickLogSpec>(&source);
  return TransformElement(clicks == nullptr ? Digits() : Clicks(*clicks),
                          PipelineTransforms(job.data));
}

// Returns the type of a batch of training data after the pipeline. Errors: INVALID_ARGUMENT unless
// ShapesAreKnown(), or if the pipeline cannot transform data that the model takes.
absl::StatusOr<proto::ElementSpec> ExpectedBatch(const JobSpec& job) {
  if (TypeIsKnown(job.data.train)) return KnownBatch(job, job.data.train);
  if (!ShapesAreKnown(job)) {
    return absl::InvalidArgumentError(
        "only the workers know the shape of the data in files: give the model's first layer an "
        "input_shape");
  }
  const std::vector<ModelInput> inputs = InputsOf(job.model);
  const std::vector<proto::DatasetTransform> pipeline = PipelineTransforms(job.data);
  // Files may hold any type that the model can read, so one such type stands for all of them.
  proto::ElementSpec files;
  for (size_t i = 0; i < NumComponents(job.data.train); ++i) {
    *files.add_components() =
        i < inputs.size() && !IsEncoded(job, i) ? Readable(inputs[i]) : Classes();
  }
  ASSIGN_OR_RETURN(proto::ElementSpec batch, TransformElement(files, pipeline));
  const size_t labels = inputs.size();
  if (labels >= NumComponents(job.data.train) || IsEncoded(job, labels)) return batch;
  // The type of the labels follows from the model's output, so the model is built once without
  // them.
  ASSIGN_OR_RETURN(const Model model, Model::Create(job.model, job.seed, batch));
  *files.mutable_components(static_cast<int>(labels)) = Labels(job, model.outputs()[0].shape);
  return TransformElement(files, pipeline);
}

// Returns the number of examples of a source that the program generates, or nothing for files.
std::optional<int64_t> KnownCount(const DataSourceSpec& source) {
  if (const auto* digits = std::get_if<SyntheticDigitsSpec>(&source)) return digits->count;
  const auto* clicks = std::get_if<ClickLogSpec>(&source);
  if (clicks != nullptr && clicks->paths.empty()) return clicks->count;
  return std::nullopt;
}

// Checks the parts of a training that do not depend on the data, for a model that takes examples of
// any shape.
absl::Status CheckTraining(const JobSpec& job) {
  // The checks need the names of the variables alone, which do not depend on the shape, so each
  // layer is planned for the first of these shapes that it takes.
  LayerPlan plan(job.seed);
  for (size_t i = 0; i < job.model.layers.size(); ++i) {
    const LayerSpec& layer = job.model.layers[i];
    const CallSettings settings = {layer.name, {i}, true, {""}};
    TensorType input{.column = 0};
    if (layer.type->kind == LayerKind::kLookup) input.dtype = DType::kInt32;
    for (const Shape& shape :
         {Shape({64}), Shape({64, 64}), Shape({64, 64, 64}), Shape({64, 64, 64, 64})}) {
      input.shape = shape;
      if (layer.layer->Plan({settings, {&input, 1}}, plan).ok()) break;
    }
  }
  std::vector<VariableSpec> variables = plan.Variables();
  RETURN_IF_ERROR(CheckMetrics(job.compile));
  return SetUpdates(job.compile.optimizer, variables);
}

// Checks the test source as far as the job file tells the types of both data sets.
absl::Status CheckTestSource(const JobSpec& job) {
  if (!job.data.test.has_value()) return absl::OkStatus();
  const DataSourceSpec& train = job.data.train;
  const DataSourceSpec& test = *job.data.test;
  if (TypeIsKnown(train) && TypeIsKnown(test)) {
    ASSIGN_OR_RETURN(const proto::ElementSpec train_batch, KnownBatch(job, train));
    if (NumComponents(train) == NumComponents(test)) {
      ASSIGN_OR_RETURN(const proto::ElementSpec test_batch, KnownBatch(job, test));
      return CheckTestBatch(train_batch, test_batch);
    }
  }
  // Without the types, only the number of components can be compared.
  return CheckTestComponents(NumComponents(train), NumComponents(test));
}

}  // namespace

absl::StatusOr<Plan> MakeOfflinePlan(const JobSpec& job, const ClusterShape& cluster) {
  ASSIGN_OR_RETURN(const proto::ElementSpec batch, ExpectedBatch(job));
  ASSIGN_OR_RETURN(const ModelPrograms model, BuildPrograms(job, batch));
  ASSIGN_OR_RETURN(const std::unique_ptr<const Strategy> strategy, MakeStrategy(job.strategy));
  return strategy->MakePlan(model, cluster);
}

absl::Status CheckJob(const JobSpec& job, const ClusterShape& cluster,
                      std::optional<uint64_t> memory_bytes) {
  RETURN_IF_ERROR(CheckTestSource(job));
  // The number of examples in files is known only to the workers.
  if (const std::optional<int64_t> count = KnownCount(job.data.train); count.has_value()) {
    RETURN_IF_ERROR(TrainingExamples(*count, job.fit.validation_split).status());
  }
  if (!ShapesAreKnown(job)) return CheckTraining(job);
  ASSIGN_OR_RETURN(const Plan plan, MakeOfflinePlan(job, cluster));
  if (!job.export_to.onnx.empty()) {
    RETURN_IF_ERROR(Annotate(PlanOnnxExport(plan.predict).status(), "export.onnx"));
  }
  // Without a common machine, each task reports its own memory when it starts.
  if (!memory_bytes.has_value()) return absl::OkStatus();
  const std::vector<int>& homes = plan.homes == Role::kPs ? cluster.ps : cluster.workers;
  MemoryLimits limits{plan.homes, {}, /*shared=*/true};
  // All tasks share the memory of one machine, so each home has the same limit.
  for (const int home : homes) limits.bytes[home] = *memory_bytes;
  return CheckMemory(MemoryNeeds(plan.variables, homes), limits);
}

}  // namespace cohort
