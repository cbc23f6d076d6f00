#include "tests/models/run_case.h"

#include <utility>

#include "absl/strings/match.h"
#include "common/base/status.h"
#include "common/runtime/kernels/cpu/register.h"
#include "common/runtime/kernels/reference/register.h"
#include "common/runtime/run/program_runner.h"

namespace cohort {
namespace {

using nlohmann::json;

// Returns a model with one Dense layer.
json DenseModel() {
  const json dense = {{"name", "dense"}, {"units", 2}};
  return {{"class_name", "Sequential"},
          {"config", {{"layers", {{{"class_name", "Dense"}, {"config", dense}}}}}}};
}

KernelRegistry RegistryOf(CaseKernels kernels) {
  KernelRegistry registry;
  if (kernels == CaseKernels::kCpu) {
    RegisterCpuKernels(registry, 1);
  } else {
    RegisterReferenceKernels(registry);
  }
  return registry;
}

}  // namespace

proto::ElementSpec BatchOf(const std::vector<GoldenTensor>& inputs) {
  proto::ElementSpec batch;
  for (const GoldenTensor& input : inputs) {
    proto::ComponentSpec& component = *batch.add_components();
    component.set_name(input.name);
    component.set_dtype(static_cast<int32_t>(input.dtype));
    component.mutable_dims()->Assign(input.shape.dims().begin(), input.shape.dims().end());
  }
  proto::ComponentSpec& label = *batch.add_components();
  label.set_name("label");
  label.set_dtype(static_cast<int32_t>(DType::kInt64));
  label.add_dims(1);
  return batch;
}

absl::StatusOr<JobSpec> ParseCaseJob(const json& model, json compile) {
  if (!compile.contains("loss")) compile["loss"] = "sparse_categorical_crossentropy";
  const json job = {{"model", model},
                    {"compile", std::move(compile)},
                    {"data", {{"train", {{"class_name", "MNIST"}}}}}};
  return ParseJob(job.dump(), "case", {});
}

absl::StatusOr<JobSpec> ParseCompileCase(const ModelCase& one, const json& compile) {
  json model = DenseModel();
  if (absl::StartsWith(one.version, "k2")) {
    model["keras_version"] = "2.15.0";
  } else {
    model["module"] = "keras";
  }
  return ParseCaseJob(model, compile);
}

json ClassFormOf(const ModelCase& one) {
  json form = {{"class_name", one.class_name}, {"config", one.json["config"]}};
  form["module"] = absl::StartsWith(one.version, "k2") ? "keras." + one.kind + "s" : "keras";
  form["registered_name"] = nullptr;
  return form;
}

absl::StatusOr<std::vector<Tensor>> RunCaseGraph(const onnx::ModelProto& model,
                                                 const std::vector<Tensor>& inputs,
                                                 CaseKernels kernels) {
  const KernelRegistry registry = RegistryOf(kernels);
  ASSIGN_OR_RETURN(auto compiled, CompileProgram(model, registry));
  ProgramRunner runner(std::move(compiled));
  runner.FillDeadMemory();
  RETURN_IF_ERROR(runner.Run(inputs, RunContext{}).status());
  return runner.Run(inputs, RunContext{});
}

Verdict RunModelCase(const ModelCase& one, CaseKernels kernels) {
  if (one.kind == "layer" || one.kind == "activation") return RunLayerCase(one, kernels);
  if (one.kind == "optimizer") return RunOptimizerCase(one, kernels);
  if (one.kind == "initializer") return RunInitializerCase(one);
  if (one.kind == "loss") return RunLossCase(one, kernels);
  if (one.kind == "metric") return RunMetricCase(one, kernels);
  if (one.kind == "regularizer") return RunRegularizerCase(one, kernels);
  if (one.kind == "constraint") return RunConstraintCase(one);
  return Verdict::Failed("no runner computes a " + one.kind + " yet");
}

}  // namespace cohort
