#include "tests/unit/coordinator/model/model_test_support.h"

#include <algorithm>
#include <cmath>
#include <fstream>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/status.h"
#include "common/program/program.h"
#include "common/runtime/kernels/reference/register.h"
#include "common/runtime/run/program_runner.h"
#include "coordinator/layers/classes/layer_classes.h"
#include "coordinator/model/onnx_file.h"
#include "gtest/gtest.h"
#include "tests/support/world/memory_file_system.h"

namespace cohort {

nlohmann::json ReadGolden(const std::string& name) {
  std::ifstream file(COHORT_SOURCE_DIR "/tests/golden/" + name);
  nlohmann::json golden = nlohmann::json::parse(file, nullptr, /*allow_exceptions=*/false);
  if (!golden.is_discarded()) return golden;
  ADD_FAILURE() << "tests/golden/" << name << " cannot be read";
  return nlohmann::json::object();
}

absl::StatusOr<JobSpec> MakeJob(const nlohmann::json& model, const nlohmann::json& optimizer,
                                const nlohmann::json& loss, const nlohmann::json& metrics) {
  const nlohmann::json job = {
      {"model", model},
      {"compile", {{"optimizer", optimizer}, {"loss", loss}, {"metrics", metrics}}},
      {"data", {{"train", {{"class_name", "MNIST"}}}}}};
  return ParseJob(job.dump(), "test job", {});
}

proto::ComponentSpec Component(DType dtype, const std::vector<int64_t>& dims) {
  proto::ComponentSpec component;
  component.set_dtype(static_cast<int32_t>(dtype));
  component.mutable_dims()->Assign(dims.begin(), dims.end());
  return component;
}

proto::ElementSpec Batch(const proto::ComponentSpec& x, const proto::ComponentSpec& y) {
  proto::ElementSpec batch;
  *batch.add_components() = x;
  *batch.add_components() = y;
  return batch;
}

absl::StatusOr<std::vector<Tensor>> RunProgram(const proto::Program& program,
                                               const std::vector<Tensor>& batch,
                                               const std::map<std::string, Tensor>& variables) {
  ASSIGN_OR_RETURN(const onnx::ModelProto model, LoadProgram(program));
  std::vector<Tensor> inputs;
  for (const proto::InputBinding& binding : program.inputs()) {
    inputs.push_back(binding.has_batch_component() ? batch.at(binding.batch_component())
                                                   : variables.at(binding.variable()));
  }
  return RunGraph(model, inputs);
}

absl::StatusOr<std::vector<Tensor>> RunGraph(const onnx::ModelProto& model,
                                             const std::vector<Tensor>& inputs) {
  KernelRegistry registry;
  RegisterReferenceKernels(registry);
  ASSIGN_OR_RETURN(auto compiled, CompileProgram(model, registry));
  ProgramRunner runner(std::move(compiled));
  RunContext context;
  context.seed = 1;
  return runner.Run(inputs, context);
}

absl::StatusOr<onnx::ModelProto> Exported(const proto::Program& predict,
                                          const std::map<std::string, Tensor>& values) {
  ASSIGN_OR_RETURN(const OnnxExport exported, PlanOnnxExport(predict));
  MemoryFileSystem files;
  const auto read = [&](const std::string& variable) -> absl::StatusOr<Tensor> {
    const auto value = values.find(variable);
    if (value != values.end()) return value->second;
    return absl::NotFoundError(absl::StrCat("no value is given for variable '", variable, "'"));
  };
  RETURN_IF_ERROR(WriteOnnx(files, "/model.onnx", exported, read, kOnnxFileBytesMax));
  ASSIGN_OR_RETURN(const std::string bytes, ReadFile(files, "/model.onnx"));
  return LoadModel(bytes);
}

absl::StatusOr<LayerValue> BuildLayer(const nlohmann::json& form,
                                      const std::vector<LayerValue>& inputs, GraphBuilder& graph,
                                      StateValues& state) {
  JsonErrors errors;
  FileNotes notes;
  const LayerContext context{.classes = &LayerClasses(), .notes = &notes};
  const ReadLayerResult read = ReadLayer({"", errors, &form}, context);
  RETURN_IF_ERROR(errors.ToStatus("test layer"));
  const CallSettings settings = {read.layer->name, {0}, true, {inputs.size(), ""}};
  LayerPlan plan(/*seed=*/0);
  std::vector<TensorType> types;
  for (const LayerValue& input : inputs) types.push_back(input.type);
  ASSIGN_OR_RETURN(const std::vector<TensorType> outputs,
                   read.layer->layer->Plan({settings, types}, plan));
  const auto ids = [&](const TensorType&, const std::string&) { return inputs[0].value; };
  std::vector<std::string> penalties;
  LayerTarget target{graph, ModelMode::kTraining, state, penalties, ids};
  LayerValue output = read.layer->layer->Build({settings, inputs, outputs}, target)[0];
  output.type = outputs[0];
  return output;
}

Tensor FloatTensor(const nlohmann::json& values, const Shape& shape) {
  return Tensor::FromVector<float>(values.get<std::vector<float>>(), shape);
}

Tensor Int64Tensor(const nlohmann::json& values, const Shape& shape) {
  return Tensor::FromVector<int64_t>(values.get<std::vector<int64_t>>(), shape);
}

double LargestError(const Tensor& a, const Tensor& b) {
  EXPECT_EQ(a.TypeString(), b.TypeString());
  if (a.TypeString() != b.TypeString()) return HUGE_VAL;
  double largest = 0;
  for (int64_t i = 0; i < a.num_elements(); ++i) {
    const double expected = b.data<float>()[i];
    const double error =
        std::abs(a.data<float>()[i] - expected) / std::max(1.0, std::abs(expected));
    largest = std::isnan(error) ? HUGE_VAL : std::max(largest, error);
  }
  return largest;
}

}  // namespace cohort
