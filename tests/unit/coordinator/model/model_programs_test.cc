#include "coordinator/model/model_programs.h"

#include <cmath>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "common/program/program.h"
#include "common/program/update_rule.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/unit/coordinator/model/model_test_support.h"

namespace cohort {
namespace {

using nlohmann::json;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

json Layer(const std::string& class_name, const json& config) {
  return {{"class_name", class_name}, {"config", config}};
}

json Sequential(const json& layers) {
  return {{"class_name", "Sequential"}, {"config", {{"layers", layers}}}};
}

// The job of the R example, from the file that is shipped.
json MnistModel() {
  return Sequential(json::array(
      {Layer("Dense", {{"units", 256}, {"activation", "relu"}}), Layer("Dropout", {{"rate", 0.4}}),
       Layer("Dense", {{"units", 128}, {"activation", "relu"}}), Layer("Dropout", {{"rate", 0.3}}),
       Layer("Dense", {{"units", 10}, {"activation", "softmax"}})}));
}

proto::ElementSpec MnistBatch() {
  return Batch(Component(DType::kFloat32, {-1, 784}), Component(DType::kFloat32, {-1, 10}));
}

absl::StatusOr<ModelPrograms> Build(const json& model, const proto::ElementSpec& batch,
                                    const json& loss = "categorical_crossentropy",
                                    const json& metrics = json::array({"accuracy"}),
                                    const json& optimizer = "rmsprop") {
  absl::StatusOr<JobSpec> job = MakeJob(model, optimizer, loss, metrics);
  EXPECT_TRUE(job.ok()) << job.status();
  return BuildPrograms(*job, batch);
}

std::vector<std::string> Bindings(const proto::Program& program) {
  std::vector<std::string> bindings;
  for (const proto::InputBinding& input : program.inputs()) {
    bindings.push_back(input.has_batch_component()
                           ? "batch " + std::to_string(input.batch_component())
                           : "variable " + input.variable());
  }
  for (const proto::OutputBinding& output : program.outputs()) {
    bindings.push_back(output.has_push() ? "push " + output.push() : "fetch");
  }
  return bindings;
}

std::multiset<std::string> Operators(const proto::Program& program) {
  std::multiset<std::string> operators;
  const absl::StatusOr<onnx::ModelProto> model = LoadProgram(program);
  EXPECT_TRUE(model.ok()) << model.status();
  for (const onnx::NodeProto& node : model->graph().node()) {
    operators.insert(node.op_type());
  }
  return operators;
}

TEST(ModelPrograms, TheMnistModelHasKerasVariablesInOrder) {
  const ModelPrograms programs = *Build(MnistModel(), MnistBatch());
  std::vector<std::string> names;
  for (const VariableSpec& variable : programs.variables) {
    names.push_back(variable.name + " " + variable.shape.ToString());
  }
  EXPECT_THAT(names,
              ElementsAre("dense/kernel [784,256]", "dense/bias [256]", "dense_1/kernel [256,128]",
                          "dense_1/bias [128]", "dense_2/kernel [128,10]", "dense_2/bias [10]"));
  const proto::Initializer& kernel = programs.variables[0].initializer;
  EXPECT_EQ(kernel.op(), "random_uniform");
  EXPECT_DOUBLE_EQ(kernel.b(), std::sqrt(6.0 / (784 + 256)));
  EXPECT_DOUBLE_EQ(kernel.a(), -kernel.b());
  EXPECT_EQ(programs.variables[1].initializer.op(), "zeros");
}

// Images are in Keras's order where the model begins, and in ONNX's between layers: a merge of
// images turns none. The other transpositions are those of the two kernels.
TEST(ModelPrograms, MergedImagesStayInTheOrderOfConvolutions) {
  const auto node = [](const std::string& class_name, const std::string& name, json config,
                       const std::vector<std::string>& inputs) {
    json tensors = json::array();
    for (const std::string& input : inputs) tensors.push_back({input, 0, 0, json::object()});
    config["name"] = name;
    json layer = Layer(class_name, config);
    layer["name"] = name;
    layer["inbound_nodes"] = inputs.empty() ? json::array() : json::array({tensors});
    return layer;
  };
  const json convolution = {{"filters", 3}, {"kernel_size", 3}, {"padding", "same"}};
  const json model = {
      {"class_name", "Functional"},
      {"config",
       {{"name", "residual"},
        {"layers", json::array({node("InputLayer", "x", {{"batch_shape", {nullptr, 8, 8, 3}}}, {}),
                                node("Conv2D", "a", convolution, {"x"}),
                                node("Conv2D", "b", convolution, {"a"}),
                                node("Add", "sum", json::object(), {"a", "b"}),
                                node("Concatenate", "both", json::object(), {"sum", "a"}),
                                node("GlobalAveragePooling2D", "mean", json::object(), {"both"}),
                                node("Dense", "y", {{"units", 2}}, {"mean"})})},
        {"input_layers", json::array({json::array({"x", 0, 0})})},
        {"output_layers", json::array({json::array({"y", 0, 0})})}}}};
  const auto programs = Build(
      model, Batch(Component(DType::kFloat32, {-1, 8, 8, 3}), Component(DType::kFloat32, {-1, 2})),
      "mean_squared_error", json::array());
  ASSERT_TRUE(programs.ok()) << programs.status();
  EXPECT_EQ(Operators(programs->predict).count("Transpose"), 3u);
}

TEST(ModelPrograms, BindingsComeInTheDocumentedOrder) {
  const ModelPrograms programs =
      *Build(Sequential(json::array({Layer("Dense", {{"units", 10}})})), MnistBatch());
  EXPECT_THAT(Bindings(programs.train_step),
              ElementsAre("batch 0", "batch 1", "variable dense/kernel", "variable dense/bias",
                          "fetch", "fetch", "fetch", "push dense/kernel", "push dense/bias"));
  EXPECT_THAT(Bindings(programs.eval_step),
              ElementsAre("batch 0", "batch 1", "variable dense/kernel", "variable dense/bias",
                          "fetch", "fetch", "fetch"));
  EXPECT_THAT(Bindings(programs.predict),
              ElementsAre("batch 0", "variable dense/kernel", "variable dense/bias", "fetch"));
  EXPECT_THAT(programs.fetch_names, ElementsAre("loss_sum", "count", "accuracy"));
}

TEST(ModelPrograms, OnlyTrainingDropsOut) {
  const ModelPrograms programs = *Build(MnistModel(), MnistBatch());
  EXPECT_EQ(Operators(programs.train_step).count("Dropout"), 2u);
  EXPECT_EQ(Operators(programs.eval_step).count("Dropout"), 0u);
  EXPECT_EQ(Operators(programs.predict).count("Dropout"), 0u);
}

TEST(ModelPrograms, ASoftmaxAtTheEndIsNotComputedForTheLoss) {
  const ModelPrograms programs = *Build(MnistModel(), MnistBatch());
  EXPECT_EQ(Operators(programs.train_step).count("Softmax"), 0u);
  EXPECT_EQ(Operators(programs.predict).count("Softmax"), 1u);
}

TEST(ModelPrograms, AStepComputesNothingForMetricsThatNobodyAsksFor) {
  const ModelPrograms none =
      *Build(MnistModel(), MnistBatch(), "categorical_crossentropy", json::array());
  const ModelPrograms one = *Build(MnistModel(), MnistBatch());
  EXPECT_EQ(Operators(none.train_step).count("ArgMax"), 0u);
  EXPECT_GT(Operators(one.train_step).count("ArgMax"), 0u);
}

TEST(ModelPrograms, ProgramsLoadAndKeepASymbolicBatch) {
  const ModelPrograms programs = *Build(MnistModel(), MnistBatch());
  for (const proto::Program* program :
       {&programs.train_step, &programs.eval_step, &programs.predict}) {
    const absl::StatusOr<onnx::ModelProto> model = LoadProgram(*program);
    ASSERT_TRUE(model.ok()) << model.status();
    const auto& type = model->graph().input(0).type().tensor_type();
    EXPECT_EQ(type.shape().dim(0).dim_param(), "N");
  }
  const onnx::ModelProto predict = *LoadProgram(programs.predict);
  const auto& output = predict.graph().output(0).type().tensor_type().shape();
  EXPECT_EQ(output.dim(0).dim_param(), "N");
  EXPECT_EQ(output.dim(1).dim_value(), 10);
}

TEST(ModelPrograms, TheSameJobMakesTheSameBytes) {
  const ModelPrograms a = *Build(MnistModel(), MnistBatch());
  const ModelPrograms b = *Build(MnistModel(), MnistBatch());
  EXPECT_EQ(ProgramId(a.train_step), ProgramId(b.train_step));
}

TEST(ModelPrograms, RawImagesAreCastAndFlattenedInTheGraph) {
  const ModelPrograms programs = *Build(
      Sequential(json::array({Layer("Flatten", json::object()), Layer("Dense", {{"units", 10}})})),
      Batch(Component(DType::kUint8, {-1, 2, 2}), Component(DType::kUint8, {-1})),
      "sparse_categorical_crossentropy");
  const Tensor x = Tensor::FromVector<uint8_t>({1, 2, 3, 4, 5, 6, 7, 8}, {2, 2, 2});
  const Tensor y = Tensor::FromVector<int64_t>({0, 9}, {2});
  std::vector<float> kernel(40, 0.0f);
  kernel[9] = 1;  // class 9 scores the first pixel of each image, 1 and 5
  const auto outputs = RunProgram(programs.train_step, {x, y},
                                  {{"dense/kernel", Tensor::FromVector<float>(kernel, {4, 10})},
                                   {"dense/bias", Tensor::Zeros(DType::kFloat32, {10})}});
  ASSERT_TRUE(outputs.ok()) << outputs.status();
  EXPECT_EQ(*(*outputs)[1].data<float>(), 2.0f);
  EXPECT_EQ((*outputs)[2].data<double>()[0], 1.0);
  EXPECT_EQ((*outputs)[2].data<double>()[1], 2.0);
}

TEST(ModelPrograms, ABatchOfOneAndALargeOneRunOnOneProgram) {
  const ModelPrograms programs =
      *Build(Sequential(json::array({Layer("Dense", {{"units", 3}, {"activation", "softmax"}})})),
             Batch(Component(DType::kFloat32, {-1, 2}), Component(DType::kFloat32, {-1, 3})));
  for (const int64_t n : {1, 2, 100}) {
    const auto outputs =
        RunProgram(programs.train_step,
                   {Tensor::Zeros(DType::kFloat32, {n, 2}),
                    Tensor::FromVector<float>(std::vector<float>(n * 3, 1), {n, 3})},
                   {{"dense/kernel", Tensor::Zeros(DType::kFloat32, {2, 3})},
                    {"dense/bias", Tensor::Zeros(DType::kFloat32, {3})}});
    ASSERT_TRUE(outputs.ok()) << outputs.status();
    EXPECT_NEAR(*(*outputs)[0].data<float>(), static_cast<double>(n) * 3 * std::log(3.0),
                1e-4 * static_cast<double>(n));
    EXPECT_EQ(*(*outputs)[1].data<float>(), static_cast<float>(n));
  }
}

TEST(ModelPrograms, OptimizersBecomeRulesThatThePsKnows) {
  const std::vector<std::pair<const char*, const char*>> ops = {
      {"sgd", "sgd"},         {"adagrad", "adagrad"},
      {"rmsprop", "rmsprop"}, {"adam", "adam"},
      {"AdamW", "adam"},      {"adamax", "adamax"},
      {"nadam", "nadam"},     {"adadelta", "adadelta"},
      {"ftrl", "ftrl"},       {"RowwiseAdagrad", "rowwise_adagrad"},
      {"lion", "lion"},       {"adafactor", "adafactor"},
      {"lamb", "lamb"},       {"Muon", "muon"}};
  for (const auto& [name, op] : ops) {
    const ModelPrograms programs = *Build(MnistModel(), MnistBatch(), "categorical_crossentropy",
                                          json::array({"accuracy"}), name);
    EXPECT_EQ(programs.update_rule.op(), op);
    EXPECT_TRUE(DescribeUpdateRule(programs.update_rule).ok());
    EXPECT_EQ(ParameterOf(programs.update_rule, "weight_decay"),
              std::string(name) == "AdamW" || std::string(name) == "Muon" ? 0.004 : 0);
  }
}

TEST(ModelPrograms, SomeVariablesHaveRulesOfTheirOwn) {
  const auto rules = [](const json& optimizer) {
    std::map<std::string, proto::UpdateRule> by_name;
    const ModelPrograms programs = *Build(MnistModel(), MnistBatch(), "categorical_crossentropy",
                                          json::array({"accuracy"}), optimizer);
    for (const VariableSpec& variable : programs.variables) {
      by_name[variable.name] = variable.rule.value_or(programs.update_rule);
    }
    return by_name;
  };
  auto decayed =
      rules(Layer("AdamW", {{"exclude_from_weight_decay", json::array({"bias", "dense_1/"})}}));
  EXPECT_EQ(ParameterOf(decayed["dense/kernel"], "weight_decay"), 0.004);
  EXPECT_EQ(ParameterOf(decayed["dense/bias"], "weight_decay"), 0);
  EXPECT_EQ(ParameterOf(decayed["dense_1/kernel"], "weight_decay"), 0);
  auto muon = rules(Layer("Muon", {{"exclude_layers", json::array({"dense_2"})},
                                   {"adam_lr_ratio", 0.5},
                                   {"adam_beta_2", 0.9},
                                   {"adam_weight_decay", 0.25}}));
  EXPECT_EQ(muon["dense/kernel"].op(), "muon");
  for (const char* name : {"dense/bias", "dense_2/kernel"}) {
    EXPECT_EQ(muon[name].op(), "adam") << name;
    EXPECT_EQ(ParameterOf(muon[name], "learning_rate_ratio"), 0.5);
    EXPECT_EQ(ParameterOf(muon[name], "beta_2"), 0.9);
    EXPECT_EQ(ParameterOf(muon[name], "weight_decay"), 0.25);
    EXPECT_TRUE(DescribeUpdateRule(muon[name]).ok());
  }
}

// As Keras does, Muon knows an embedding by its name.
TEST(ModelPrograms, MuonLeavesEmbeddingsToAdamWUnlessItIsToldNotTo) {
  json model = MnistModel();
  model["config"]["layers"].back()["config"]["name"] = "my_Embedding";
  const auto op = [&](const json& config) {
    const ModelPrograms programs = *Build(model, MnistBatch(), "categorical_crossentropy",
                                          json::array(), Layer("Muon", config));
    std::string found = "none";
    for (const VariableSpec& variable : programs.variables) {
      if (variable.name != "my_Embedding/kernel") continue;
      found = variable.rule.value_or(programs.update_rule).op();
    }
    return found;
  };
  EXPECT_EQ(op(json::object()), "adam");
  EXPECT_EQ(op({{"exclude_embeddings", true}}), "adam");
  EXPECT_EQ(op({{"exclude_embeddings", false}}), "muon");
}

absl::StatusOr<ModelPrograms> WithConstraint(const json& constraint) {
  const json model = Sequential(json::array({Layer(
      "Dense", {{"units", 10}, {"activation", "softmax"}, {"kernel_constraint", constraint}})}));
  return Build(model,
               Batch(Component(DType::kFloat32, {-1, 784}), Component(DType::kFloat32, {-1, 10})),
               "categorical_crossentropy", json::array(), "sgd");
}

TEST(ModelPrograms, AConstraintIsPartOfTheRuleOfItsVariable) {
  const auto programs = WithConstraint(Layer("MaxNorm", {{"max_value", 3}, {"axis", 0}}));
  ASSERT_TRUE(programs.ok()) << programs.status();
  ASSERT_EQ(programs->variables.size(), 2u);
  const std::optional<proto::UpdateRule>& rule = programs->variables[0].rule;
  ASSERT_TRUE(rule.has_value());
  EXPECT_EQ(ParameterOf(*rule, "constraint"), 1);
  EXPECT_EQ(ParameterOf(*rule, "constraint_max"), 3);
  EXPECT_EQ(ParameterOf(*rule, "constraint_count"), 784);
  EXPECT_EQ(ParameterOf(*rule, "constraint_stride"), 10);
  EXPECT_EQ(ParameterOf(*rule, "constraint_whole"), 1);
  EXPECT_FALSE(programs->variables[1].rule.has_value());
  const auto by_row = WithConstraint(Layer("UnitNorm", {{"axis", -1}}));
  ASSERT_TRUE(by_row.ok()) << by_row.status();
  EXPECT_EQ(ParameterOf(*by_row->variables[0].rule, "constraint_whole"), 0);
}

TEST(ModelPrograms, AConstraintThatDoesNotFitIsAnErrorThatNamesTheLayer) {
  const auto error = [](const json& constraint) {
    return std::string(WithConstraint(constraint).status().message());
  };
  EXPECT_THAT(error(Layer("MaxNorm", {{"axis", 2}})),
              testing::HasSubstr("the MaxNorm of its kernel: axis 2 is not one of [784,10]"));
  EXPECT_THAT(error(Layer("MaxNorm", {{"axis", json::array()}})),
              testing::HasSubstr("do not lie side by side"));
}

absl::StatusOr<std::map<std::string, proto::SparseMode>> SparseModes(const json& sparse_updates) {
  const json adam = {{"class_name", "Adam"},
                     {"config", {{"beta_2", 0.8}, {"sparse_updates", sparse_updates}}}};
  const auto programs = Build(MnistModel(), MnistBatch(), "categorical_crossentropy",
                              json::array({"accuracy"}), adam);
  if (!programs.ok()) return programs.status();
  std::map<std::string, proto::SparseMode> modes;
  for (const VariableSpec& variable : programs->variables) modes[variable.name] = variable.sparse;
  return modes;
}

TEST(ModelPrograms, SparseModesAreOfAllVariablesOrByName) {
  const auto lazy = *SparseModes("lazy");
  EXPECT_GT(lazy.size(), 2u);
  for (const auto& [name, mode] : lazy) EXPECT_EQ(mode, proto::LAZY) << name;
  const auto one = *SparseModes({{"dense/kernel", "lazy"}});
  for (const auto& [name, mode] : one) {
    EXPECT_EQ(mode, name == "dense/kernel" ? proto::LAZY : proto::DENSE_EXACT) << name;
  }
  EXPECT_THAT(std::string(SparseModes({{"dense/kernl", "lazy"}}).status().message()),
              testing::HasSubstr("dense/kernel"));
  // Adam's moves must fade: 0.9^2 is not less than 0.8.
  EXPECT_THAT(std::string(SparseModes("lazy_compensated").status().message()),
              testing::HasSubstr("beta_1^2 < beta_2"));
}

// One example, no weights yet: the gradient of the bias is softmax - label = (-2, 1, 1) / 3, that
// of the kernel is x times it.
TEST(ModelPrograms, ClippingIsOfEachVariableOrOfAllTogether) {
  const auto norms = [](const json& config) {
    const ModelPrograms programs =
        *Build(Sequential(json::array({Layer("Dense", {{"units", 3}})})),
               Batch(Component(DType::kFloat32, {-1, 2}), Component(DType::kFloat32, {-1, 3})),
               {{"class_name", "CategoricalCrossentropy"}, {"config", {{"from_logits", true}}}},
               json::array(), {{"class_name", "SGD"}, {"config", config}});
    const auto outputs = RunProgram(
        programs.train_step,
        {Tensor::FromVector<float>({3, 4}, {1, 2}), Tensor::FromVector<float>({1, 0, 0}, {1, 3})},
        {{"dense/kernel", Tensor::Zeros(DType::kFloat32, {2, 3})},
         {"dense/bias", Tensor::Zeros(DType::kFloat32, {3})}});
    EXPECT_TRUE(outputs.ok()) << outputs.status();
    std::vector<double> result;
    for (size_t i = 2; i < outputs->size(); ++i) {
      double sum = 0;
      for (const float element : (*outputs)[i].span<float>()) sum += element * element;
      result.push_back(std::sqrt(sum));
    }
    return result;
  };
  using testing::DoubleNear;
  const double bias = std::sqrt(6.0) / 3;
  const double all = bias * std::sqrt(26.0);
  EXPECT_THAT(norms(json::object()),
              ElementsAre(DoubleNear(5 * bias, 1e-6), DoubleNear(bias, 1e-6)));
  EXPECT_THAT(norms({{"clipnorm", 1}}), ElementsAre(DoubleNear(1, 1e-6), DoubleNear(bias, 1e-6)));
  EXPECT_THAT(norms({{"global_clipnorm", 1}}),
              ElementsAre(DoubleNear(5 * bias / all, 1e-6), DoubleNear(bias / all, 1e-6)));
}

struct Misfit {
  const char* what;
  json model;
  proto::ElementSpec batch;
  json loss;
  json metrics;
  std::vector<std::string> message;
};

void ExpectMisfits(const std::vector<Misfit>& cases) {
  for (const Misfit& misfit : cases) {
    SCOPED_TRACE(misfit.what);
    const absl::Status status =
        Build(misfit.model, misfit.batch, misfit.loss, misfit.metrics).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    for (const std::string& part : misfit.message) {
      EXPECT_THAT(std::string(status.message()), HasSubstr(part));
    }
  }
}

json TenUnits() { return Sequential(json::array({Layer("Dense", {{"units", 10}})})); }

constexpr char kCategorical[] = "categorical_crossentropy";
constexpr char kSparse[] = "sparse_categorical_crossentropy";

TEST(ModelPrograms, LabelsThatDoNotFitAreErrorsThatNameTypeAndRemedy) {
  const auto x = Component(DType::kFloat32, {-1, 784});
  const auto one_hot = Component(DType::kFloat32, {-1, 10});
  const json none = json::array();
  ExpectMisfits({
      {"sparse labels",
       TenUnits(),
       Batch(x, Component(DType::kUint8, {-1})),
       kCategorical,
       none,
       {"labels [N,10]", "uint8[-1]", "CategoryEncoding", "num_tokens 10"}},
      {"one-hot labels",
       TenUnits(),
       Batch(x, one_hot),
       kSparse,
       none,
       {"integer label", "float32[-1,10]", "'categorical_crossentropy'"}},
      {"wrong classes",
       TenUnits(),
       Batch(x, Component(DType::kFloat32, {-1, 7})),
       kCategorical,
       none,
       {"[-1,7]", "units"}},
      {"wrong metric",
       TenUnits(),
       Batch(x, one_hot),
       kCategorical,
       json::array({"sparse_categorical_accuracy"}),
       {"sparse_categorical_accuracy", "'accuracy'"}},
  });
}

TEST(ModelPrograms, InputsThatDoNotFitAreErrorsThatNameLayerAndShape) {
  const auto images = Component(DType::kFloat32, {-1, 28, 28});
  const auto one_hot = Component(DType::kFloat32, {-1, 10});
  const json none = json::array();
  const json declared =
      Sequential(json::array({Layer("Dense", {{"units", 10}, {"input_shape", {784}}})}));
  ExpectMisfits({
      {"image into Dense",
       TenUnits(),
       Batch(images, one_hot),
       kCategorical,
       none,
       {"[28,10] per example", "Flatten"}},
      {"wrong declared input",
       declared,
       Batch(images, one_hot),
       kCategorical,
       none,
       {"'input'", "[28,28]", "[784]"}},
      {"scalar input",
       TenUnits(),
       Batch(Component(DType::kFloat32, {-1}), one_hot),
       kCategorical,
       none,
       {"'dense'", "[]"}},
      {"unknown dimension",
       TenUnits(),
       Batch(Component(DType::kFloat32, {-1, -1}), one_hot),
       kCategorical,
       none,
       {"-1 in dimension 1"}},
  });
}

TEST(ModelPrograms, LayersWhoseOptionsDoNotFitTheirInputAreNamed) {
  const auto images = Component(DType::kFloat32, {-1, 28, 28});
  const auto one_hot = Component(DType::kFloat32, {-1, 10});
  const json none = json::array();
  const json untrained = Sequential(json::array({Layer("Activation", {{"activation", "tanh"}})}));
  ExpectMisfits({
      {"the ellipsis of an EinsumDense without the batch",
       Sequential(json::array(
           {Layer("EinsumDense", {{"equation", "abc,cd->abd"}, {"output_shape", {28, 10}}}),
            Layer("EinsumDense", {{"equation", "ab,bc->ac"}, {"output_shape", 10}})})),
       Batch(images, one_hot),
       kCategorical,
       none,
       {"'einsum_dense_1'", "'ab,bc->ac' needs other dimensions"}},
      {"an EinsumDense without a size",
       Sequential(json::array(
           {Layer("EinsumDense", {{"equation", "abc,cd->abd"}, {"output_shape", {28, nullptr}}})})),
       Batch(images, one_hot),
       kCategorical,
       none,
       {"'einsum_dense'", "no size for the axis 'd'"}},
      {"an output_padding that the stride does not leave",
       Sequential(json::array({Layer("Conv1DTranspose", {{"filters", 2},
                                                         {"kernel_size", 2},
                                                         {"strides", 2},
                                                         {"padding", "same"},
                                                         {"output_padding", 0}})})),
       Batch(images, one_hot),
       kCategorical,
       none,
       {"'conv1d_transpose'", "its output_padding gives 54 positions"}},
      {"nothing to train",
       untrained,
       Batch(one_hot, one_hot),
       kCategorical,
       none,
       {"nothing to train"}},
  });
}

}  // namespace
}  // namespace cohort
