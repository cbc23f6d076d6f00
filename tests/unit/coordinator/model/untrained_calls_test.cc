// Layers that are called with `training` false: in a training step they compute as in evaluation.

#include "coordinator/model/model_programs.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/unit/coordinator/model/model_test_support.h"

namespace cohort {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;
using ::testing::Not;

// x [N,3] through `layer`, called with or without `training` false, and a Dense of 2 classes.
absl::StatusOr<ModelPrograms> Build(const json& layer, bool training) {
  json input = {{"class_name", "InputLayer"},
                {"config", {{"name", "x"}, {"batch_shape", {nullptr, 3}}}},
                {"inbound_nodes", json::array()}};
  json tensor = json::array({"x", 0, 0});
  if (!training) tensor.push_back({{"training", false}});
  json called = layer;
  called["config"]["name"] = "layer";
  called["inbound_nodes"] = json::array({json::array({tensor})});
  const json dense = {{"class_name", "Dense"},
                      {"config", {{"name", "out"}, {"units", 2}, {"activation", "softmax"}}},
                      {"inbound_nodes", json::parse(R"([[["layer", 0, 0]]])")}};
  const json model = {{"class_name", "Functional"},
                      {"config",
                       {{"layers", {input, called, dense}},
                        {"input_layers", json::parse(R"([["x", 0, 0]])")},
                        {"output_layers", json::parse(R"([["out", 0, 0]])")}}}};
  const auto job = MakeJob(model, "sgd", "sparse_categorical_crossentropy", json::array());
  if (!job.ok()) return job.status();
  return BuildPrograms(*job,
                       Batch(Component(DType::kFloat32, {-1, 3}), Component(DType::kInt64, {-1})));
}

const std::vector<Tensor>& TwoExamples() {
  static const auto* const kBatch =
      new std::vector<Tensor>{Tensor::FromVector<float>({1, 2, 3, -4, 5, 9}, {2, 3}),
                              Tensor::FromVector<int64_t>({1, 0}, {2})};
  return *kBatch;
}

std::map<std::string, Tensor> Variables() {
  return {{"out/kernel", Tensor::FromVector<float>({1, -1, 0.5, 2, 0.25, -3}, {3, 2})},
          {"out/bias", Tensor::FromVector<float>({0.5, 0}, {2})},
          {"layer/gamma", Tensor::FromVector<float>({1, 2, 0.5}, {3})},
          {"layer/beta", Tensor::FromVector<float>({0, 1, -1}, {3})},
          {"layer/moving_mean", Tensor::FromVector<float>({0.5, -2, 1}, {3})},
          {"layer/moving_variance", Tensor::FromVector<float>({4, 1, 9}, {3})}};
}

float LossOf(const proto::Program& program) {
  const auto outputs = RunProgram(program, TwoExamples(), Variables());
  EXPECT_TRUE(outputs.ok()) << outputs.status();
  return outputs.ok() ? (*outputs)[0].data<float>()[0] : NAN;
}

std::string Assigned(const proto::Program& program) {
  std::string names;
  for (const proto::OutputBinding& output : program.outputs()) {
    if (output.has_assign()) names += output.assign() + " ";
  }
  return names;
}

TEST(UntrainedCalls, ADropoutDropsNothing) {
  const json dropout = {{"class_name", "Dropout"}, {"config", {{"rate", 0.9}}}};
  const auto trained = Build(dropout, true);
  const auto untrained = Build(dropout, false);
  ASSERT_TRUE(trained.ok() && untrained.ok()) << trained.status() << untrained.status();
  EXPECT_NE(LossOf(trained->train_step), LossOf(trained->eval_step));
  EXPECT_EQ(LossOf(untrained->train_step), LossOf(untrained->eval_step));
}

TEST(UntrainedCalls, ABatchNormalizationUsesItsMovingStatisticsAndLeavesThem) {
  for (const bool synchronized : {false, true}) {
    const json norm = {{"class_name", "BatchNormalization"},
                       {"config", {{"synchronized", synchronized}}}};
    const auto trained = Build(norm, true);
    const auto untrained = Build(norm, false);
    ASSERT_TRUE(trained.ok() && untrained.ok()) << trained.status() << untrained.status();
    EXPECT_EQ(Assigned(trained->train_step), "layer/moving_mean layer/moving_variance ");
    EXPECT_EQ(Assigned(untrained->train_step), "");
    EXPECT_FALSE(untrained->exchanges);
    EXPECT_NEAR(LossOf(untrained->train_step), LossOf(untrained->eval_step), 1e-6);
    EXPECT_GT(
        std::abs(LossOf(untrained->train_step) - (synchronized ? 0 : LossOf(trained->train_step))),
        1e-3);
  }
}

// The scale and shift are trained all the same: by finite differences.
TEST(UntrainedCalls, ABatchNormalizationHasGradients) {
  const json norm = {{"class_name", "BatchNormalization"}, {"config", json::object()}};
  const auto programs = Build(norm, false);
  ASSERT_TRUE(programs.ok()) << programs.status();
  const proto::Program& step = programs->train_step;
  const auto outputs = RunProgram(step, TwoExamples(), Variables());
  ASSERT_TRUE(outputs.ok()) << outputs.status();
  for (int i = 0; i < step.outputs_size(); ++i) {
    const std::string& name = step.outputs(i).push();
    if (name != "layer/gamma" && name != "layer/beta") continue;
    for (int64_t k = 0; k < 3; ++k) {
      const auto mean_loss = [&](float moved) {
        std::map<std::string, Tensor> variables = Variables();
        variables[name] = variables[name].Clone();
        variables[name].mutable_data<float>()[k] += moved;
        return RunProgram(step, TwoExamples(), variables)->at(0).data<float>()[0] / 2;
      };
      const float slope = (mean_loss(1e-2f) - mean_loss(-1e-2f)) / 2e-2f;
      EXPECT_NEAR((*outputs)[static_cast<size_t>(i)].data<float>()[k], slope, 2e-2) << name << k;
    }
  }
}

// A Dense of 4 classes on x [N,3], and labels of this type.
absl::StatusOr<ModelPrograms> WithLabels(const proto::ComponentSpec& labels) {
  const json model = json::parse(
      R"({"class_name": "Sequential", "config": {"layers": [
          {"class_name": "Dense", "config": {"units": 4, "activation": "softmax"}}]}})");
  const auto job = MakeJob(model, "sgd", "sparse_categorical_crossentropy", json::array());
  return BuildPrograms(*job, Batch(Component(DType::kFloat32, {-1, 3}), labels));
}

TEST(SparseLabels, MayLieInAColumnAndBeWholeNumbersInFloats) {
  for (const proto::ComponentSpec& given :
       {Component(DType::kUint8, {-1}), Component(DType::kUint8, {-1, 1}),
        Component(DType::kInt8, {-1}), Component(DType::kFloat32, {-1}),
        Component(DType::kFloat64, {-1, 1})}) {
    const auto programs = WithLabels(given);
    ASSERT_TRUE(programs.ok()) << programs.status();
    ASSERT_EQ(programs->labels.size(), 1u);
    EXPECT_EQ(programs->labels.at(0).class_labels().component(), 1u);
    EXPECT_EQ(programs->labels.at(0).class_labels().classes(), 4);
    const Tensor labels = Tensor::FromVector<int64_t>({1, 3}, {2});
    EXPECT_TRUE(RunProgram(programs->eval_step, {Tensor::Zeros(DType::kFloat32, {2, 3}), labels},
                           {{"dense/kernel", Tensor::Zeros(DType::kFloat32, {3, 4})},
                            {"dense/bias", Tensor::Zeros(DType::kFloat32, {4})}})
                    .ok());
  }
  EXPECT_THAT(std::string(WithLabels(Component(DType::kFloat32, {-1, 4})).status().message()),
              HasSubstr("float32[-1,4]"));
}

TEST(DeclaredTypes, AreRefusedWhereKerasWouldCastToLess) {
  const auto build = [](const std::string& declared, DType data) {
    const json model = {{"class_name", "Sequential"},
                        {"config",
                         {{"layers",
                           {{{"class_name", "InputLayer"},
                             {"config", {{"batch_shape", {nullptr, 3}}, {"dtype", declared}}}},
                            {{"class_name", "Dense"}, {"config", {{"units", 4}}}}}}}}};
    const auto job = MakeJob(model, "sgd", "sparse_categorical_crossentropy", json::array());
    EXPECT_TRUE(job.ok()) << job.status();
    return BuildPrograms(*job, Batch(Component(data, {-1, 3}), Component(DType::kInt64, {-1})))
        .status();
  };
  EXPECT_TRUE(build("float32", DType::kUint8).ok());
  EXPECT_TRUE(build("int32", DType::kUint8).ok());
  EXPECT_TRUE(build("int64", DType::kInt64).ok());
  EXPECT_THAT(std::string(build("int32", DType::kFloat32).message()),
              HasSubstr("declares int32, and the data is float32"));
  EXPECT_THAT(std::string(build("float16", DType::kFloat32).message()), HasSubstr("float16"));
}

TEST(DeclaredShapes, OfImagesWithoutChannelsAreToldOfReshape) {
  const auto job = MakeJob(json::parse(R"({"class_name": "Sequential", "config": {"layers": [
          {"class_name": "Conv2D", "config": {"filters": 2, "kernel_size": 3,
                                              "input_shape": [28, 28, 1]}},
          {"class_name": "Flatten"}, {"class_name": "Dense", "config": {"units": 10}}]}})"),
                           "sgd", "sparse_categorical_crossentropy", json::array());
  ASSERT_TRUE(job.ok()) << job.status();
  const absl::Status status = BuildPrograms(*job, Batch(Component(DType::kUint8, {-1, 28, 28}),
                                                        Component(DType::kUint8, {-1})))
                                  .status();
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("a Reshape layer with target_shape [28,28,1]"));
  EXPECT_THAT(std::string(status.message()), Not(HasSubstr("Flatten")));
}

}  // namespace
}  // namespace cohort
