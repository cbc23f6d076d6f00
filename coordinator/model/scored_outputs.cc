#include "coordinator/model/scored_outputs.h"

#include <algorithm>
#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/base/status.h"
#include "coordinator/job/data_spec.h"
#include "coordinator/model/loss.h"
#include "coordinator/network/output_names.h"

namespace cohort {
namespace {

constexpr char kLabelColumn[] = "label";

// Checks that the component can have one weight for each example.
absl::Status CheckSampleWeight(uint32_t component, const proto::ElementSpec& batch) {
  if (component >= static_cast<uint32_t>(batch.components_size())) {
    return absl::InvalidArgumentError(absl::StrCat("data.sample_weight is component ", component,
                                                   ", but the data has ", batch.components_size(),
                                                   " components; give a number below that"));
  }
  if (HasLabels(batch.components(static_cast<int>(component)))) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "data.sample_weight is component ", component,
      ", which does not have one number for each example; name a component [N] or [N,1]"));
}

// Returns the scored outputs, without the members that depend on the labels' types in the data
// sets.
absl::StatusOr<std::vector<ScoredOutput>> PairWithLabels(const JobSpec& job, const Model& model,
                                                         const proto::ElementSpec& batch) {
  ASSIGN_OR_RETURN(const std::vector<LabelComponent> labels, FindLabels(job, model));
  const std::vector<std::string> names = OutputNames(job.model);
  std::vector<ScoredOutput> scored;
  for (const LabelComponent& one : labels) {
    if (one.component >= static_cast<uint32_t>(batch.components_size())) {
      return absl::InvalidArgumentError(absl::StrCat("data.labels is component ", one.component,
                                                     ", but the data has ", batch.components_size(),
                                                     " components; give a number below that"));
    }
    ScoredOutput& output = scored.emplace_back();
    output.spec = job.compile.outputs[one.output];
    output.number = one.output;
    if (names.size() > 1) output.name = names[one.output];
    output.shape = model.outputs()[one.output].shape;
    output.labels = one.component;
    output.labels_type = batch.components(static_cast<int>(one.component));
    RETURN_IF_ERROR(CheckLabels(output.spec, output.shape, output.labels_type));
    output.sample_weight = job.data.sample_weight.Of(one.output, names[one.output]);
    if (output.sample_weight.has_value()) {
      RETURN_IF_ERROR(CheckSampleWeight(*output.sample_weight, batch));
    }
  }
  return scored;
}

// Returns the components that are read as class numbers only, each with its number of classes. If
// several outputs read the same labels, the smallest number of classes counts.
std::map<uint32_t, int64_t> ClassComponents(const std::vector<ScoredOutput>& outputs,
                                            const Model& model) {
  std::map<uint32_t, int64_t> classes;
  for (const ScoredOutput& output : outputs) {
    if (!output.spec.has_loss || !TakesClasses(output.spec.loss, output.shape)) continue;
    const auto [found, is_new] = classes.emplace(output.labels, output.shape.dim(0));
    if (!is_new) found->second = std::min(found->second, output.shape.dim(0));
  }
  // Neither inputs of the model nor weights may be changed by a transform.
  for (const uint32_t component : model.components()) classes.erase(component);
  for (const ScoredOutput& output : outputs) {
    if (output.sample_weight.has_value()) classes.erase(*output.sample_weight);
  }
  return classes;
}

// Resolves the metrics of an output for the labels that the data sets give.
void ResolveMetrics(ScoredOutput& output) {
  output.metrics = ResolvedMetrics(output.spec, ValueOf("", output.labels_type), output.shape);
  output.metric_sizes = StateSizes(output.metrics, output.shape);
  if (output.name.empty()) return;
  for (MetricSpec& metric : output.metrics) metric.name = ReportedName(output.spec, metric.name);
}

}  // namespace

absl::StatusOr<ModelSpec> ModelForBatch(const JobSpec& job, const proto::ElementSpec& batch) {
  ModelSpec model = job.model;
  // A click log's first column is its numbers, which a Sequential model reads.
  if (!model.sequential || !HasColumnFunctions(job.data.train)) return model;
  const std::string output = OutputNames(model)[0];
  const std::optional<uint32_t> labels = job.data.labels.Of(0, output);
  const std::optional<uint32_t> weights = job.data.sample_weight.Of(0, output);
  std::vector<std::string> rest;
  for (uint32_t i = 0; i < static_cast<uint32_t>(batch.components_size()); ++i) {
    const std::string& name = batch.components(static_cast<int>(i)).name();
    const bool is_labels = labels.has_value() ? *labels == i : name == kLabelColumn;
    if (!is_labels && weights != i) rest.push_back(name);
  }
  if (rest.empty() && labels.has_value() &&
      *labels < static_cast<uint32_t>(batch.components_size())) {
    rest = {batch.components(static_cast<int>(*labels)).name()};
  }
  if (rest.size() > 1) {
    return absl::InvalidArgumentError(absl::StrCat(
        "a Sequential model reads one column, and beside labels and sample_weight the data have ",
        absl::StrJoin(rest, ", "),
        "; Drop the others in data.pipeline, name the labels in data.labels, or take a Functional "
        "model with an input for each column"));
  }
  if (rest.size() == 1) model.input_names = rest;
  return model;
}

absl::StatusOr<std::vector<LabelComponent>> FindLabels(const JobSpec& job, const Model& model) {
  const std::vector<OutputSpec>& outputs = job.compile.outputs;
  const std::vector<std::string> names = OutputNames(job.model);
  if (outputs.size() != model.outputs().size() || outputs.size() != names.size()) {
    return absl::InvalidArgumentError(absl::StrCat("compile is for ", outputs.size(),
                                                   " outputs, and the model has ",
                                                   model.outputs().size(), "; give both as many"));
  }
  const auto scored = std::count_if(outputs.begin(), outputs.end(),
                                    [](const OutputSpec& one) { return one.reads_labels(); });
  std::vector<LabelComponent> labels;
  for (size_t i = 0; i < outputs.size(); ++i) {
    if (!outputs[i].reads_labels()) continue;
    if (const auto named = job.data.labels.Of(i, names[i])) {
      labels.push_back({i, *named});
      continue;
    }
    const std::string column = scored == 1 ? kLabelColumn : names[i];
    absl::StatusOr<uint32_t> found = model.FindLabels(column, labels.size());
    if (!found.ok() && scored > 1) {
      return absl::InvalidArgumentError(absl::StrCat(
          found.status().message(), "; data.labels may name the labels of each output"));
    }
    RETURN_IF_ERROR(found.status());
    labels.push_back({i, *found});
  }
  return labels;
}

absl::StatusOr<ScoredOutputs> FindScoredOutputs(const JobSpec& job, const Model& model,
                                                const proto::ElementSpec& batch) {
  ScoredOutputs found;
  ASSIGN_OR_RETURN(found.outputs, PairWithLabels(job, model, batch));
  const std::map<uint32_t, int64_t> classes = ClassComponents(found.outputs, model);
  for (const auto& [component, count] : classes) {
    proto::ClassLabels& labels = *found.transforms.emplace_back().mutable_class_labels();
    labels.set_component(component);
    labels.set_classes(count);
  }
  for (ScoredOutput& output : found.outputs) {
    if (classes.contains(output.labels)) output.labels_type = ClassLabels(output.labels_type);
    ResolveMetrics(output);
  }
  return found;
}

}  // namespace cohort
