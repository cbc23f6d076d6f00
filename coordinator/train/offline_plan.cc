#include "coordinator/train/offline_plan.h"

#include <memory>
#include <utility>
#include <variant>
#include <vector>

#include "common/base/status.h"
#include "coordinator/model/layer_shapes.h"
#include "coordinator/model/loss.h"
#include "coordinator/model/onnx_export.h"
#include "coordinator/model/optimizer.h"
#include "coordinator/strategy/make_strategy.h"
#include "coordinator/strategy/memory_need.h"
#include "coordinator/train/data_checks.h"
#include "coordinator/train/expected_batch.h"

namespace cohort {
namespace {

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
  // The checks do not depend on shapes, so any shape serves.
  const Shape any({1, 1, 1});
  std::vector<VariableSpec> variables;
  for (const LayerSpec& layer : job.model.layers) {
    for (VariableSpec& variable : LayerVariables(layer, any, job.seed)) {
      variables.push_back(std::move(variable));
    }
  }
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
