#include "coordinator/train/offline_plan.h"

#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "common/base/status.h"
#include "common/tensor/dtype.h"
#include "coordinator/model/onnx_export.h"
#include "coordinator/strategy/memory_need.h"
#include "coordinator/train/data_checks.h"

namespace cohort {
namespace {

void AddComponent(DType dtype, absl::Span<const int64_t> example, proto::ElementSpec& element) {
  proto::ComponentSpec& component = *element.add_components();
  component.set_dtype(static_cast<int32_t>(dtype));
  component.add_dims(-1);
  for (const int64_t dim : example) component.add_dims(dim);
}

bool HasDigits(const DataSourceSpec& source) {
  if (const auto* mnist = std::get_if<MnistSpec>(&source)) return mnist->images.empty();
  return std::holds_alternative<SyntheticDigitsSpec>(source);
}

// Whether the job file says what its data are: of files it does not.
bool IsKnown(const DataSourceSpec& source) {
  return HasDigits(source) || std::holds_alternative<ClickLogSpec>(source);
}

// Of data that the program makes itself.
std::optional<int64_t> KnownCount(const DataSourceSpec& source) {
  if (const auto* digits = std::get_if<SyntheticDigitsSpec>(&source)) return digits->count;
  const auto* clicks = std::get_if<ClickLogSpec>(&source);
  if (clicks != nullptr && clicks->paths.empty()) return clicks->count;
  return std::nullopt;
}

// The type of a batch of training data, behind the pipeline; a guess, where it is not known.
absl::StatusOr<proto::ElementSpec> ExpectedBatch(const JobSpec& job) {
  std::vector<proto::DatasetTransform> pipeline = PipelineTransforms(job.data);
  proto::ElementSpec element;
  if (HasDigits(job.data.train)) {
    AddComponent(DType::kUint8, {28, 28}, element);
    AddComponent(DType::kUint8, {}, element);
    return TransformElement(element, pipeline);
  }
  if (const auto* clicks = std::get_if<ClickLogSpec>(&job.data.train)) {
    for (const std::string& name : ColumnNames(*clicks)) {
      const bool numbers = name == "dense";
      AddComponent(numbers ? DType::kFloat32 : DType::kInt32,
                   numbers ? std::vector<int64_t>{13} : std::vector<int64_t>{}, element);
      element.mutable_components(element.components_size() - 1)->set_name(name);
    }
    return TransformElement(element, pipeline);
  }
  const auto* input =
      job.model.layers.empty() ? nullptr : std::get_if<InputLayerSpec>(&job.model.layers.front());
  if (input == nullptr) {
    return absl::InvalidArgumentError(
        "only the workers know the shape of the data in files: give the model's first layer an "
        "input_shape");
  }
  // What the model is given, behind the pipeline; of labels files have one byte each.
  proto::ElementSpec labels;
  AddComponent(DType::kFloat32, input->shape, labels);
  AddComponent(DType::kUint8, {}, labels);
  ASSIGN_OR_RETURN(element, TransformElement(labels, pipeline));
  *element.mutable_components(0) = labels.components(0);
  return element;
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
  const absl::StatusOr<Plan> plan = MakeOfflinePlan(job, cluster);
  // A guess that comes to nothing says nothing.
  if (!plan.ok()) return IsKnown(job.data.train) ? plan.status() : absl::OkStatus();
  if (const std::optional<int64_t> count = KnownCount(job.data.train); count.has_value()) {
    RETURN_IF_ERROR(TrainingExamples(*count, job.fit.validation_split).status());
  }
  if (!job.export_to.onnx.empty()) {
    RETURN_IF_ERROR(Annotate(PlanOnnxExport(plan->predict).status(), "export.onnx"));
  }
  if (!memory_bytes.has_value()) return absl::OkStatus();
  const std::vector<int>& homes = plan->homes == Role::kPs ? cluster.ps : cluster.workers;
  MemoryLimits limits{plan->homes, {}, /*shared=*/true};
  for (const int home : homes) limits.bytes[home] = *memory_bytes;
  return CheckMemory(MemoryNeeds(plan->variables, homes), limits);
}

}  // namespace cohort
