#include "coordinator/model/onnx_export.h"

#include <fstream>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "common/program/graph_builder.h"
#include "common/program/program.h"
#include "common/runtime/kernels/reference/register.h"
#include "common/runtime/run/program_runner.h"
#include "coordinator/model/model_programs.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/unit/coordinator/model/model_test_support.h"

namespace cohort {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;

// The golden case, its program and the trained values.
struct Trained {
  json golden;
  ModelPrograms programs;
  std::map<std::string, Tensor> values;
  Tensor x;
};

Trained Load() {
  Trained trained;
  const json all = ReadGolden("keras/training.json");
  trained.golden = all.at("cases").at(0);
  EXPECT_EQ(trained.golden.at("name"), "mnist_mlp_small");
  const json& golden = trained.golden;
  const int64_t features = golden.at("features");
  const int64_t classes = golden.at("classes");
  absl::StatusOr<JobSpec> job =
      MakeJob(golden.at("model"), golden.at("optimizer"), golden.at("loss"), json::array());
  EXPECT_TRUE(job.ok()) << job.status();
  trained.programs = *BuildPrograms(*job, Batch(Component(DType::kFloat32, {-1, features}),
                                                Component(DType::kFloat32, {-1, classes})));
  for (size_t i = 0; i < trained.programs.variables.size(); ++i) {
    const VariableSpec& variable = trained.programs.variables[i];
    trained.values[variable.name] = FloatTensor(golden.at("weights").at(i), variable.shape);
  }
  trained.x = FloatTensor(golden.at("x"), {golden.at("batch").get<int64_t>(), features});
  return trained;
}

// Runs a model of its own, without any binding.
absl::StatusOr<std::vector<Tensor>> RunModel(const onnx::ModelProto& model, const Tensor& x) {
  KernelRegistry registry;
  RegisterReferenceKernels(registry);
  auto compiled = CompileProgram(model, registry);
  if (!compiled.ok()) return compiled.status();
  return ProgramRunner(*compiled).Run({x}, RunContext());
}

TEST(OnnxExport, IsOneOrdinaryModelWithTheWeightsInside) {
  const Trained trained = Load();
  const absl::StatusOr<onnx::ModelProto> model = Exported(trained.programs.predict, trained.values);
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_EQ(model->opset_import_size(), 1);
  EXPECT_EQ(model->opset_import(0).domain(), "");
  ASSERT_EQ(model->graph().input_size(), 1);
  EXPECT_EQ(model->graph().input(0).name(), "x");
  EXPECT_EQ(model->graph().input(0).type().tensor_type().shape().dim(0).dim_param(), "N");
  std::set<std::string> weights;
  for (const onnx::TensorProto& tensor : model->graph().initializer()) {
    weights.insert(tensor.name());
  }
  for (const auto& [name, value] : trained.values) EXPECT_TRUE(weights.contains(name)) << name;
  EXPECT_TRUE(LoadModel(model->SerializeAsString()).ok());
}

TEST(OnnxExport, PredictsWhatOnnxruntimePredictsFromIt) {
  const Trained trained = Load();
  const onnx::ModelProto model = *Exported(trained.programs.predict, trained.values);
  const std::string path = testing::TempDir() + "cohort_export.onnx";
  std::ofstream(path, std::ios::binary) << model.SerializeAsString();
  std::cout << "model for tests/golden/onnxruntime/run_export.py: " << path << "\n";

  const auto predicted = RunModel(model, trained.x);
  ASSERT_TRUE(predicted.ok()) << predicted.status();
  const json golden = ReadGolden("onnxruntime/predictions.json");
  const Tensor expected = FloatTensor(
      golden.at("predictions"),
      {trained.golden.at("batch").get<int64_t>(), trained.golden.at("classes").get<int64_t>()});
  EXPECT_LT(LargestError(predicted->at(0), expected), 1e-6);
  const auto one = RunModel(model, trained.x.Rows(2, 1));
  ASSERT_TRUE(one.ok()) << one.status();
  EXPECT_LT(LargestError(one->at(0), expected.Rows(2, 1)), 1e-6);
}

// Images, normalization by moving statistics, kernels in Keras's order.
TEST(OnnxExport, AModelOfImagesPredictsWhatOnnxruntimePredictsFromIt) {
  const json images = ReadGolden("keras/images.json");
  const json& golden = images.at("cases").at(0);
  ASSERT_EQ(golden.at("name"), "digits");
  const Shape x(golden.at("dims").get<std::vector<int64_t>>());
  const auto job = MakeJob(golden.at("model"), golden.at("optimizer"),
                           "sparse_categorical_crossentropy", json::array());
  ASSERT_TRUE(job.ok()) << job.status();
  const auto programs = BuildPrograms(
      *job,
      Batch(Component(DType::kFloat32, {-1, x.dim(1), x.dim(2)}), Component(DType::kInt64, {-1})));
  ASSERT_TRUE(programs.ok()) << programs.status();
  std::map<std::string, Tensor> values;
  for (size_t i = 0; i < programs->variables.size(); ++i) {
    const VariableSpec& variable = programs->variables[i];
    values[variable.name] = FloatTensor(golden.at("weights").at(i), variable.shape);
  }
  const auto model = Exported(programs->predict, values);
  ASSERT_TRUE(model.ok()) << model.status();
  const std::string path = testing::TempDir() + "cohort_export_images.onnx";
  std::ofstream(path, std::ios::binary) << model->SerializeAsString();
  std::cout << "model for tests/golden/onnxruntime/run_export.py: " << path << "\n";
  const auto predicted = RunModel(*model, FloatTensor(golden.at("x"), x));
  ASSERT_TRUE(predicted.ok()) << predicted.status();
  const Tensor expected = FloatTensor(ReadGolden("onnxruntime/predictions.json").at("images"),
                                      {x.dim(0), golden.at("classes").get<int64_t>()});
  EXPECT_LT(LargestError(predicted->at(0), expected), 1e-6);
}

TEST(OnnxExport, MissingAndMisshapenValuesAreErrorsThatNameThem) {
  Trained trained = Load();
  trained.values["dense/kernel"] = Tensor::Zeros(DType::kFloat32, {2, 2});
  const std::string wrong(Exported(trained.programs.predict, trained.values).status().message());
  EXPECT_THAT(wrong, HasSubstr("'dense/kernel' is float32[2,2]"));
  EXPECT_THAT(wrong, HasSubstr("[11,9]"));
  trained.values.erase("dense/kernel");
  EXPECT_THAT(std::string(Exported(trained.programs.predict, trained.values).status().message()),
              HasSubstr("no value is given for variable 'dense/kernel'"));
}

TEST(OnnxExport, OperatorsOfOurOwnAndOtherInputsAreErrors) {
  const Trained trained = Load();
  EXPECT_THAT(std::string(Exported(trained.programs.train_step, trained.values).status().message()),
              HasSubstr("cohort."));

  GraphBuilder graph("argument");
  const std::string a = graph.Input("a", DType::kFloat32, {2});
  graph.Output(graph.Op("Relu", {a}));
  proto::Program program;
  const onnx::ModelProto model = *graph.Finish();
  program.set_model(model.SerializeAsString());
  program.add_inputs()->set_input("a");
  program.mutable_inputs(0)->set_argument(0);
  program.add_outputs()->set_output(model.graph().output(0).name());
  program.mutable_outputs(0)->set_fetch(true);
  EXPECT_THAT(std::string(Exported(program, {}).status().message()),
              HasSubstr("'a' is neither batch nor variable"));
}

}  // namespace
}  // namespace cohort
