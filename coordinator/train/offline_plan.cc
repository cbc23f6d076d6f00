#include "coordinator/train/offline_plan.h"

#include <algorithm>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/status.h"
#include "common/tensor/dtype.h"
#include "coordinator/model/loss.h"
#include "coordinator/model/model.h"
#include "coordinator/model/model_programs.h"
#include "coordinator/model/optimizer.h"
#include "coordinator/model/scored_outputs.h"
#include "coordinator/strategy/make_strategy.h"
#include "coordinator/strategy/memory_need.h"
#include "coordinator/train/data_checks.h"
#include "coordinator/train/exports.h"

namespace cohort {

namespace {

// An input of the model. Component n of an example is input number n.
struct ModelInput {
  const InputType& type;
  bool is_looked_up = false;  // whether a layer looks up rows of a table by the input
  std::string name = {};      // the layer's, by which named columns are found
};

// Returns the type of a batch of examples of shape `example`. Axis 0, the batch, has the size -1,
// which stands for any size.
proto::ComponentSpec Batched(DType dtype, absl::Span<const int64_t> example) {
  proto::ComponentSpec component;
  component.set_dtype(static_cast<int32_t>(dtype));
  component.add_dims(-1);
  for (const int64_t dim : example) component.add_dims(dim);
  return component;
}

// Returns whether the examples of `source` are digits in MNIST's form.
bool HasDigits(const DataSourceSpec& source) {
  if (const auto* mnist = std::get_if<MnistSpec>(&source)) return mnist->images.empty();
  return std::holds_alternative<SyntheticDigitsSpec>(source);
}

// Returns the type of a batch of digits before the data pipeline: images and class numbers.
proto::ElementSpec Digits() {
  proto::ElementSpec element;
  *element.add_components() = Batched(DType::kUint8, {28, 28});
  *element.add_components() = Batched(DType::kUint8, {});
  return element;
}

// Returns the type of a batch of click logs before the data pipeline: 13 numbers, an id for each
// category, and the label.
proto::ElementSpec Clicks(const ClickLogSpec& clicks) {
  proto::ElementSpec element;
  for (const std::string& name : ColumnNames(clicks)) {
    proto::ComponentSpec& component = *element.add_components();
    component = name == "dense" ? Batched(DType::kFloat32, {13}) : Batched(DType::kInt32, {});
    component.set_name(name);
  }
  return element;
}

// Returns the inputs of a model that declares them.
std::vector<ModelInput> InputsOf(const ModelSpec& model) {
  std::vector<ModelInput> inputs;
  for (const size_t input : model.inputs) {
    const auto looks_up = [&](const LayerCall& call) {
      return model.layers[call.layer].type->kind == LayerKind::kLookup &&
             call.inputs[0].tensor.call == input;
    };
    const LayerSpec& layer = model.layers[model.calls[input].layer];
    inputs.push_back({*layer.input(), std::any_of(model.calls.begin(), model.calls.end(), looks_up),
                      layer.name});
  }
  return inputs;
}

// Returns whether the data pipeline turns the class numbers of the component into one-hot rows.
bool IsEncoded(const JobSpec& job, size_t component) {
  return std::any_of(job.data.pipeline.begin(), job.data.pipeline.end(),
                     [&](const TransformSpec& transform) {
                       return transform.kind == TransformSpec::Kind::kCategoryEncoding &&
                              transform.component == component;
                     });
}

// Returns the type of a batch of class numbers: one uint8 for each example.
proto::ComponentSpec Classes() { return Batched(DType::kUint8, {}); }

// Returns a type of batch that the given input of the model can read.
proto::ComponentSpec Readable(const ModelInput& input) {
  // Ids are integers, even if their input declares float32, which is the default.
  const bool is_id = input.type.dtype == DType::kInt32 || input.type.dtype == DType::kInt64;
  const DType dtype = input.is_looked_up && !is_id ? DType::kInt32 : input.type.dtype;
  return Batched(dtype, input.type.shape);
}

// Returns whether the job file alone determines the type of the examples of `source`.
bool TypeIsKnown(const DataSourceSpec& source) {
  return HasDigits(source) || std::holds_alternative<ClickLogSpec>(source);
}

// Returns the number of components of an example of `source` behind the job's data pipeline.
size_t NumComponents(const DataSpec& data, const DataSourceSpec& source) {
  if (const std::optional<size_t> arrays = NumArrays(source)) return *arrays;
  DataSpec with_source;
  with_source.train = source;
  with_source.pipeline = data.pipeline;
  return FinalColumns(with_source).size();
}

// Returns whether ExpectedBatch() can find out the shapes, because the data source has fixed shapes
// or the model declares them.
bool ShapesAreKnown(const JobSpec& job) {
  if (TypeIsKnown(job.data.train)) return true;
  const std::vector<ModelInput> inputs = InputsOf(job.model);
  return !inputs.empty() && std::all_of(inputs.begin(), inputs.end(), [](const ModelInput& input) {
    const std::vector<int64_t>& shape = input.type.shape;
    return input.type.has_shape && std::count(shape.begin(), shape.end(), -1) == 0;
  });
}

// Returns the type of a batch of `source` after the job's data pipeline. Requires TypeIsKnown().
absl::StatusOr<proto::ElementSpec> KnownBatch(const JobSpec& job, const DataSourceSpec& source) {
  const auto* clicks = std::get_if<ClickLogSpec>(&source);
  return TransformElement(clicks == nullptr ? Digits() : Clicks(*clicks),
                          PipelineTransforms(job.data));
}

// Returns the type of a batch of training data after the job's data pipeline. Errors:
// INVALID_ARGUMENT unless ShapesAreKnown(), or if the pipeline cannot transform data that the model
// can read.
absl::StatusOr<proto::ElementSpec> ExpectedBatch(const JobSpec& job) {
  if (TypeIsKnown(job.data.train)) return KnownBatch(job, job.data.train);
  if (!ShapesAreKnown(job)) {
    return absl::InvalidArgumentError(
        "only the workers know the shape of the data in files: give the model's first layer an "
        "input_shape");
  }
  const std::vector<ModelInput> inputs = InputsOf(job.model);
  const std::vector<proto::DatasetTransform> pipeline = PipelineTransforms(job.data);
  // The files may hold data of any type that the model can read. One such type stands for all of
  // them.
  proto::ElementSpec files;
  const bool has_names = HasNamedColumns(job.data.train);
  const std::vector<std::string> names = FinalColumns(job.data);
  proto::ElementSpec named;
  for (const std::string& name : names) named.add_components()->set_name(name);
  ASSIGN_OR_RETURN(const ModelSpec spec, ModelForBatch(job, named));
  for (size_t i = 0; i < NumComponents(job.data, job.data.train); ++i) {
    proto::ComponentSpec& component = *files.add_components();
    if (has_names && job.model.sequential && !spec.input_names.empty()) {
      component = names[i] == spec.input_names[0] ? Readable(inputs[0]) : Classes();
      component.set_name(names[i]);
    } else if (has_names && !job.model.sequential) {
      const auto input = std::find_if(inputs.begin(), inputs.end(),
                                      [&](const ModelInput& one) { return one.name == names[i]; });
      component = input != inputs.end() ? Readable(*input) : Classes();
      component.set_name(names[i]);
    } else {
      component = i < inputs.size() && !IsEncoded(job, i) ? Readable(inputs[i]) : Classes();
      if (has_names) component.set_name(names[i]);
    }
  }
  ASSIGN_OR_RETURN(proto::ElementSpec batch, TransformElement(files, pipeline));
  if (NumComponents(job.data, job.data.train) < inputs.size()) return batch;
  // The types of the labels follow from the model's outputs, so the model is first built without
  // labels.
  ASSIGN_OR_RETURN(const Model model, Model::Create(spec, job.seed, batch));
  const absl::StatusOr<std::vector<LabelComponent>> labels = FindLabels(job, model);
  // A missing component is reported later, by BuildPrograms.
  if (!labels.ok()) return batch;
  std::set<uint32_t> known;
  for (const LabelComponent& one : *labels) {
    // Labels that the model also reads, as an autoencoder's, have the input's type.
    const std::vector<uint32_t> read = model.components();
    const bool is_label = std::count(read.begin(), read.end(), one.component) == 0 &&
                          one.component < NumComponents(job.data, job.data.train) &&
                          !IsEncoded(job, one.component);
    // Outputs may share a component of labels. The type that the first of them needs suits all.
    if (!is_label || !known.insert(one.component).second) continue;
    proto::ComponentSpec& component = *files.mutable_components(static_cast<int>(one.component));
    const std::string name = component.name();
    component = ReadableLabels(job.compile.outputs[one.output], model.outputs()[one.output].shape);
    component.set_name(name);
  }
  return TransformElement(files, pipeline);
}

// Returns the number of examples of a source of generated data, or nullopt for files.
std::optional<int64_t> KnownCount(const DataSourceSpec& source) {
  if (const auto* digits = std::get_if<SyntheticDigitsSpec>(&source)) return digits->count;
  const auto* clicks = std::get_if<ClickLogSpec>(&source);
  if (clicks != nullptr && clicks->paths.empty()) return clicks->count;
  return std::nullopt;
}

// The shapes of examples, one of which most models can read whose first layer declares none: a
// number for each feature, for each step of a series, for each pixel of an image or a volume.
constexpr int64_t kTypicalSize = 64;
constexpr int kTypicalRankMax = 4;

// Returns the type of a batch with a component for each input of the model. What the model does not
// declare of an input's shape is taken as an example's shape of rank `rank`.
proto::ElementSpec GuessedBatch(const ModelSpec& model, int rank) {
  const std::vector<int64_t> shape(static_cast<size_t>(rank), kTypicalSize);
  proto::ElementSpec batch;
  const std::vector<ModelInput> inputs = InputsOf(model);
  for (const ModelInput& input : inputs) {
    proto::ComponentSpec& component = *batch.add_components() = Readable(input);
    if (!input.type.has_shape) component = Batched(static_cast<DType>(component.dtype()), shape);
    for (int axis = 1; axis < component.dims_size(); ++axis) {
      if (component.dims(axis) < 0) component.set_dims(axis, kTypicalSize);
    }
  }
  // A layer that looks up rows takes whole numbers only, and every other layer takes them too.
  if (inputs.empty()) *batch.add_components() = Batched(DType::kInt32, shape);
  return batch;
}

// Checks the exports of a job whose data have an unknown shape. Whether a model can be exported
// follows from its layers: if the model can be built for a guessed shape, the checks hold for every
// other shape that it can read. If no guess fits the model, nothing is checked.
absl::Status CheckExportsOfAnyShape(const JobSpec& job) {
  absl::Status refused;
  for (int rank = 1; rank <= kTypicalRankMax; ++rank) {
    const absl::StatusOr<Model> model =
        Model::Create(job.model, job.seed, GuessedBatch(job.model, rank));
    if (!model.ok()) continue;
    ASSIGN_OR_RETURN(const proto::Program predict, BuildPredict(*model));
    std::vector<std::string> variables;
    for (const VariableSpec& variable : model->variables()) variables.push_back(variable.name);
    refused = CheckExports(job, {predict, std::move(variables)});
    if (refused.ok()) return absl::OkStatus();
  }
  return refused;
}

// Checks the job's metrics and optimizer. These checks do not need the shape of the data.
absl::Status CheckTraining(const JobSpec& job) {
  // Only the names of the variables are needed, and they do not depend on the shape. So each layer
  // is planned for the first of these shapes that it accepts.
  LayerPlan plan(job.seed);
  for (size_t i = 0; i < job.model.layers.size(); ++i) {
    const LayerSpec& layer = job.model.layers[i];
    const CallSettings settings = {layer.name, {i}, true, {""}};
    TensorType input;
    input.column = 0;
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

// Checks that data without named columns have one component for each input of the model and each
// output with labels, unless the job names the labels. If the shapes are known, BuildPrograms makes
// this check.
absl::Status CheckComponents(const JobSpec& job) {
  const bool has_names = HasNamedColumns(job.data.train);
  if (has_names || !job.data.labels.empty()) return absl::OkStatus();
  const std::vector<OutputSpec>& outputs = job.compile.outputs;
  const auto labels = static_cast<size_t>(std::count_if(
      outputs.begin(), outputs.end(), [](const OutputSpec& one) { return one.reads_labels(); }));
  const size_t given = NumComponents(job.data, job.data.train);
  if (given >= job.model.num_inputs() + labels) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "data.train has ", given, " components, but the model has ", job.model.num_inputs(),
      " inputs and ", labels,
      " outputs with a loss or metrics; give one component for each, or name in data.labels those "
      "that have the labels"));
}

// Checks that the data of data.test are like those of data.train, as far as the job file tells the
// types of both.
absl::Status CheckTestSource(const JobSpec& job) {
  if (!job.data.test.has_value()) return absl::OkStatus();
  const DataSourceSpec& train = job.data.train;
  const DataSourceSpec& test = *job.data.test;
  if (TypeIsKnown(train) && TypeIsKnown(test)) {
    ASSIGN_OR_RETURN(const proto::ElementSpec train_batch, KnownBatch(job, train));
    if (NumComponents(job.data, train) == NumComponents(job.data, test)) {
      ASSIGN_OR_RETURN(const proto::ElementSpec test_batch, KnownBatch(job, test));
      return CheckTestBatch({train_batch, {}}, {test_batch, {}});
    }
  }
  // If the type of either source is unknown, only the numbers of components can be compared.
  return CheckTestComponents(NumComponents(job.data, train), NumComponents(job.data, test));
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
  if (!ShapesAreKnown(job)) {
    RETURN_IF_ERROR(CheckComponents(job));
    RETURN_IF_ERROR(CheckTraining(job));
    return CheckExportsOfAnyShape(job);
  }
  ASSIGN_OR_RETURN(const Plan plan, MakeOfflinePlan(job, cluster));
  std::vector<std::string> variables;
  for (const proto::VariableLayout& variable : plan.variables) variables.push_back(variable.name());
  RETURN_IF_ERROR(CheckExports(job, {plan.predict, std::move(variables)}));
  // If each task has its own machine, the task reports its memory when it starts.
  if (!memory_bytes.has_value()) return absl::OkStatus();
  const std::vector<int>& homes = plan.homes == Role::kPs ? cluster.ps : cluster.workers;
  MemoryLimits limits{plan.homes, {}, /*shared=*/true};
  // All tasks share the memory of one machine, so the limit of each home is the machine's memory.
  for (const int home : homes) limits.bytes[home] = *memory_bytes;
  return CheckMemory(MemoryNeeds(plan.variables, homes), limits);
}

}  // namespace cohort
