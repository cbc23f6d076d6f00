// What releases of Keras before 3 serialise (public files of 2.0 to 2.15), and keys that look
// neutral and are not.

#include <map>
#include <string>
#include <vector>

#include "coordinator/job/job_spec.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

namespace cohort {
namespace {

using nlohmann::json;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

json Layer(const std::string& class_name, const json& config) {
  return {{"class_name", class_name}, {"config", config}};
}

json Sequential(const json& layers) {
  return {{"class_name", "Sequential"}, {"config", {{"layers", layers}}}};
}

// Returns the canonical config of a layer.
json ConfigOf(const LayerSpec& layer) { return json::parse(layer.config); }

const json kDense = {{"units", 4}};

absl::StatusOr<JobSpec> Parse(const json& model, const json& optimizer = "sgd",
                              const json& loss = "sparse_categorical_crossentropy",
                              const json& metrics = json::array()) {
  const json job = {{"model", model},
                    {"compile", {{"optimizer", optimizer}, {"loss", loss}, {"metrics", metrics}}},
                    {"data", {{"train", {{"class_name", "MNIST"}}}}}};
  return ParseJob(job.dump(), "job", {});
}

std::string ErrorOf(const absl::StatusOr<JobSpec>& job) {
  EXPECT_FALSE(job.ok());
  return std::string(job.status().message());
}

// `config` and more keys.
json With(json config, const json& more) {
  config.update(more);
  return config;
}

TEST(OldKerasForms, AShapeMayBeGivenTwiceIfItIsTheSame) {
  const json input = Layer("InputLayer", {{"batch_input_shape", {nullptr, 784}}});
  const auto twice = [&](const json& shape) {
    return Sequential(
        json::array({input, Layer("Dense", With(kDense, {{"batch_input_shape", shape}})),
                     Layer("Dense", kDense)}));
  };
  const auto same = Parse(twice({nullptr, 784}));
  ASSERT_TRUE(same.ok()) << same.status();
  EXPECT_EQ(same->model,
            Parse(Sequential(json::array({input, Layer("Dense", kDense), Layer("Dense", kDense)})))
                ->model);
  EXPECT_THAT(ErrorOf(Parse(twice({nullptr, 10}))), AllOf(HasSubstr("[10]"), HasSubstr("[784]")));
  EXPECT_THAT(ErrorOf(Parse(Sequential(json::array(
                  {Layer("Dense", kDense), Layer("Dense", With(kDense, {{"input_dim", 4}}))})))),
              HasSubstr("only the first layer may give the shape"));
}

TEST(OldKerasForms, AShapeHasANameInEachVersion) {
  const auto with = [](const json& shape) {
    return Parse(Sequential(json::array({Layer("Dense", With(kDense, shape))})));
  };
  const auto by_input_shape = with({{"input_shape", {7}}});
  ASSERT_TRUE(by_input_shape.ok()) << by_input_shape.status();
  EXPECT_EQ(by_input_shape->model.layers[0].input()->shape, std::vector<int64_t>{7});
  for (const json& shape : {json{{"shape", {7}}}, json{{"batch_shape", {nullptr, 7}}},
                            json{{"batch_input_shape", {nullptr, 7}}}, json{{"input_dim", 7}}}) {
    const auto job = with(shape);
    ASSERT_TRUE(job.ok()) << job.status();
    EXPECT_EQ(job->model, by_input_shape->model) << shape;
  }
}

TEST(OldKerasForms, ATableMayGiveTheShapeOfItsIds) {
  const auto job = Parse(Sequential(json::array(
      {Layer("Embedding",
             {{"input_dim", 9}, {"output_dim", 2}, {"batch_input_shape", {nullptr, 3}}}),
       Layer("Flatten", json::object()), Layer("Dense", kDense)})));
  ASSERT_TRUE(job.ok()) << job.status();
  EXPECT_EQ(job->model.layers[0].input()->shape, std::vector<int64_t>{3});
  EXPECT_EQ(ConfigOf(job->model.layers[1])["input_dim"], 9);
}

TEST(OldKerasForms, ASequentialModelMayBeAListAndAFunctionalOneAModel) {
  const json layers = json::array({Layer("Dense", With(kDense, {{"input_shape", {7}}}))});
  const auto list = Parse({{"class_name", "Sequential"}, {"config", layers}});
  ASSERT_TRUE(list.ok()) << list.status();
  EXPECT_EQ(list->model, Parse(Sequential(layers))->model);

  json input = Layer("InputLayer", {{"name", "i"}, {"batch_input_shape", {nullptr, 7}}});
  input["inbound_nodes"] = json::array();
  json dense = Layer("Dense", With(kDense, {{"name", "d"}}));
  dense["inbound_nodes"] = json::parse(R"([[["i", 0, 0, {}]]])");
  const json config = {{"layers", {input, dense}},
                       {"input_layers", json::parse(R"([["i", 0, 0]])")},
                       {"output_layers", json::parse(R"([["d", 0, 0]])")}};
  const auto model = Parse({{"class_name", "Model"}, {"config", config}});
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_EQ(model->model, Parse({{"class_name", "Functional"}, {"config", config}})->model);
}

TEST(OldKerasForms, VarianceScalingIsTheInitializerOfItsScaleModeAndDistribution) {
  const auto of = [](double scale, const std::string& mode, const std::string& distribution) {
    const json scaling = Layer(
        "VarianceScaling",
        {{"scale", scale}, {"mode", mode}, {"distribution", distribution}, {"seed", nullptr}});
    return Parse(
        Sequential(json::array({Layer("Dense", With(kDense, {{"kernel_initializer", scaling}}))})));
  };
  const auto name = [](const absl::StatusOr<JobSpec>& job) {
    EXPECT_TRUE(job.ok()) << job.status();
    const json kernel = ConfigOf(job->model.layers[0])["kernel_initializer"];
    return kernel["class_name"].get<std::string>();
  };
  EXPECT_EQ(name(of(1, "fan_avg", "uniform")), "GlorotUniform");
  EXPECT_EQ(name(of(1, "fan_avg", "normal")), "GlorotNormal");
  EXPECT_EQ(name(of(2, "fan_in", "uniform")), "HeUniform");
  EXPECT_EQ(name(of(2, "fan_in", "truncated_normal")), "HeNormal");
  EXPECT_EQ(name(of(1, "fan_in", "uniform")), "LecunUniform");
  EXPECT_EQ(name(of(1, "fan_in", "normal")), "LecunNormal");
  // What has no name of its own stays a VarianceScaling.
  EXPECT_EQ(name(of(3, "fan_in", "normal")), "VarianceScaling");
  EXPECT_EQ(name(of(1, "fan_out", "uniform")), "VarianceScaling");
  EXPECT_EQ(name(of(1, "fan_in", "untruncated_normal")), "VarianceScaling");
  EXPECT_THAT(ErrorOf(of(0, "fan_in", "normal")), HasSubstr("scale: is 0"));
}

TEST(OldKerasForms, LrIsTheLearningRate) {
  const json layers = Sequential(json::array({Layer("Dense", kDense)}));
  const auto job = Parse(layers, Layer("RMSprop", {{"lr", 0.25}, {"rho", 0.9}, {"decay", 0.0}}));
  ASSERT_TRUE(job.ok()) << job.status();
  EXPECT_EQ(job->compile.optimizer.learning_rate, 0.25);
  EXPECT_THAT(ErrorOf(Parse(layers, Layer("SGD", {{"lr", 0.25}, {"learning_rate", 0.1}}))),
              HasSubstr("stands beside learning_rate"));
  EXPECT_THAT(ErrorOf(Parse(layers, Layer("SGD", {{"lr", -1}}))),
              HasSubstr("compile.optimizer.config.lr: is -1"));
}

TEST(OldKerasForms, DecayIsAScheduleOfTheLearningRate) {
  const json layers = Sequential(json::array({Layer("Dense", kDense)}));
  const auto job = Parse(layers, Layer("SGD", {{"lr", 0.5}, {"decay", 0.25}}));
  ASSERT_TRUE(job.ok()) << job.status();
  const ScheduleSpec& schedule = job->compile.optimizer.schedule;
  EXPECT_EQ(schedule.class_name, "InverseTimeDecay");
  EXPECT_EQ(schedule.parameters.at("initial_learning_rate"), 0.5);
  EXPECT_EQ(schedule.parameters.at("decay_steps"), 1);
  EXPECT_EQ(schedule.parameters.at("decay_rate"), 0.25);
  const json falling =
      Layer("InverseTimeDecay",
            {{"initial_learning_rate", 1.0}, {"decay_steps", 2}, {"decay_rate", 0.5}});
  EXPECT_THAT(ErrorOf(Parse(layers, Layer("SGD", {{"learning_rate", falling}, {"decay", 0.1}}))),
              HasSubstr("stands beside a schedule"));
  EXPECT_THAT(ErrorOf(Parse(layers, Layer("SGD", {{"decay", -1}}))), HasSubstr("decay: is -1"));
  // The older Nadam means its momentum by it.
  const auto nadam = Parse(layers, Layer("Nadam", {{"lr", 0.002}, {"decay", 0.004}}));
  ASSERT_TRUE(nadam.ok()) << nadam.status();
  EXPECT_EQ(nadam->compile.optimizer.schedule.class_name, "");
  EXPECT_EQ(nadam->compile.optimizer.parameters.at("schedule_decay"), 0.004);
}

TEST(OldKerasForms, OlderClassesDivideByTheRootPlusEpsilon) {
  const json layers = Sequential(json::array({Layer("Dense", kDense)}));
  const auto parameters = [&](const char* name, const json& config) {
    const auto job = Parse(layers, Layer(name, config));
    EXPECT_TRUE(job.ok()) << job.status();
    return job.ok() ? job->compile.optimizer.parameters : std::map<std::string, double>();
  };
  EXPECT_EQ(parameters("RMSprop", {{"decay", 0.0}})["epsilon_outside_root"], 1);
  EXPECT_EQ(parameters("RMSprop", {{"is_legacy_optimizer", true}})["epsilon_outside_root"], 1);
  EXPECT_EQ(parameters("RMSprop", {{"is_legacy_optimizer", false}})["epsilon_outside_root"], 0);
  // The older kernel for momentum has epsilon under the root.
  EXPECT_EQ(parameters("RMSprop", {{"decay", 0.0}, {"momentum", 0.5}})["epsilon_outside_root"], 0);
  auto adagrad = parameters("Adagrad", {{"lr", 0.01}});
  EXPECT_EQ(adagrad["epsilon_outside_root"], 1);
  EXPECT_EQ(adagrad["initial_accumulator_value"], 0);
  adagrad = parameters("Adagrad", {{"decay", 0.0}, {"initial_accumulator_value", 0.1}});
  EXPECT_EQ(adagrad["initial_accumulator_value"], 0.1);
}

TEST(OldKerasForms, AveragesOfKeras2MoveFromTheStart) {
  json keras_2 = Sequential(json::array({Layer("Dense", kDense)}));
  const json plain = keras_2;
  keras_2["keras_version"] = "2.15.0";
  const json averaged = Layer("Adam", {{"use_ema", true}});
  EXPECT_EQ(Parse(keras_2, averaged)->compile.optimizer.parameters.at("ema_from_start"), 1);
  EXPECT_FALSE(Parse(keras_2, "adam")->compile.optimizer.parameters.contains("ema_from_start"));
  EXPECT_FALSE(Parse(plain, averaged)->compile.optimizer.parameters.contains("ema_from_start"));
}

TEST(OptimizerForms, ALossScaleOptimizerIsTheOneInside) {
  const json layers = Sequential(json::array({Layer("Dense", kDense)}));
  const json inner = Layer("Adam", {{"learning_rate", 0.25}});
  const auto job = Parse(layers, Layer("LossScaleOptimizer", {{"name", "scaled"},
                                                              {"inner_optimizer", inner},
                                                              {"initial_scale", 32768.0},
                                                              {"dynamic_growth_steps", 2000}}));
  ASSERT_TRUE(job.ok()) << job.status();
  EXPECT_EQ(job->compile.optimizer.class_name, "Adam");
  EXPECT_EQ(job->compile.optimizer.learning_rate, 0.25);
  EXPECT_THAT(ErrorOf(Parse(layers, Layer("LossScaleOptimizer", json::object()))),
              HasSubstr("inner_optimizer"));
  const json nested = Layer("LossScaleOptimizer", {{"inner_optimizer", inner}});
  EXPECT_THAT(ErrorOf(Parse(layers, Layer("LossScaleOptimizer", {{"inner_optimizer", nested}}))),
              HasSubstr("LossScaleOptimizer"));
  EXPECT_TRUE(Parse(layers, Layer("Adam", {{"loss_scale_factor", 8.0}})).ok());
  EXPECT_THAT(ErrorOf(Parse(layers, Layer("Adam", {{"loss_scale_factor", 0}}))),
              HasSubstr("loss_scale_factor: is 0"));
}

TEST(OptimizerForms, NamesThatAreLeftOutAreParts) {
  const json layers = Sequential(json::array({Layer("Dense", kDense)}));
  const auto job =
      Parse(layers, Layer("AdamW", {{"exclude_from_weight_decay", json::array({"bias"})}}));
  ASSERT_TRUE(job.ok()) << job.status();
  EXPECT_EQ(job->compile.optimizer.exclude_from_weight_decay, std::vector<std::string>({"bias"}));
  EXPECT_THAT(ErrorOf(Parse(layers, Layer("Muon", {{"exclude_layers", json::array({"den.e"})}}))),
              HasSubstr("no regular expression"));
}

TEST(OptimizerForms, ClippingOfAccumulatedGradientsIsRefused) {
  const json layers = Sequential(json::array({Layer("Dense", kDense)}));
  EXPECT_TRUE(Parse(layers, Layer("Adam", {{"gradient_accumulation_steps", 4}})).ok());
  EXPECT_THAT(ErrorOf(Parse(layers, Layer("Adam", {{"gradient_accumulation_steps", 4},
                                                   {"global_clipnorm", 1.0}}))),
              HasSubstr("clips the mean"));
}

TEST(OptimizerForms, MuonsNullsLeaveOut) {
  const json layers = Sequential(json::array({Layer("Dense", kDense)}));
  const auto job = Parse(layers, Layer("Muon", {{"rms_rate", nullptr}, {"weight_decay", nullptr}}));
  ASSERT_TRUE(job.ok()) << job.status();
  EXPECT_EQ(job->compile.optimizer.parameters.at("rms_rate"), 0);
  EXPECT_EQ(job->compile.optimizer.parameters.at("weight_decay"), 0);
  EXPECT_EQ(job->compile.optimizer.parameters.at("adam_weight_decay"), 0.004);
}

TEST(OldKerasForms, ARegularizerIsRecordedIfItAddsSomething) {
  const auto with = [](const json& regularizer) {
    return Parse(Sequential(
        json::array({Layer("Dense", With(kDense, {{"kernel_regularizer", regularizer}})),
                     Layer("BatchNormalization", {{"gamma_regularizer", regularizer}})})));
  };
  const auto recorded = [&](const json& regularizer) {
    const auto job = with(regularizer);
    EXPECT_TRUE(job.ok()) << job.status();
    return job.ok() ? ConfigOf(job->model.layers[0]).value("kernel_regularizer", json()) : json();
  };
  EXPECT_TRUE(recorded(Layer("L1L2", {{"l1", 0.0}, {"l2", 0.0}})).is_null());
  EXPECT_TRUE(recorded(Layer("L2", {{"l2", 0}})).is_null());
  EXPECT_EQ(recorded(Layer("L1L2", {{"l1", 0.0}, {"l2", 1e-4}}))["config"]["l2"], 1e-4);
  EXPECT_EQ(recorded(Layer("L2", json::object()))["config"]["l2"], 0.01);
  EXPECT_EQ(recorded("l2")["config"]["l2"], 0.01);
  EXPECT_THAT(ErrorOf(with(Layer("L3", json::object()))),
              AllOf(HasSubstr("layers.0.config.kernel_regularizer"),
                    HasSubstr("'L3' is not a known regularizer")));
}

TEST(OldKerasForms, AFunctionIsItsName) {
  const auto function = [](const std::string& name) {
    return json{{"module", "builtins"},
                {"class_name", "function"},
                {"config", name},
                {"registered_name", "function"}};
  };
  const auto job = Parse(
      Sequential(json::array({Layer("Dense", With(kDense, {{"activation", function("relu")}}))})),
      "sgd", function("categorical_crossentropy"), json::array({function("categorical_accuracy")}));
  ASSERT_TRUE(job.ok()) << job.status();
  EXPECT_EQ(ConfigOf(job->model.layers[0])["activation"], "relu");
  EXPECT_EQ(job->compile.outputs.at(0).loss.class_name, "CategoricalCrossentropy");
  EXPECT_EQ(job->compile.outputs.at(0).metrics.at(0).class_name, "CategoricalAccuracy");
  EXPECT_THAT(
      ErrorOf(Parse(Sequential(json::array({Layer("Dense", kDense)})), "sgd", function("my_loss"))),
      HasSubstr("'my_loss' is not a known loss"));
}

TEST(OldKerasForms, AnOldNameIsToldItsNewOne) {
  EXPECT_THAT(ErrorOf(Parse(Sequential(json::array({Layer("Dense", {{"output_dim", 4}})})))),
              HasSubstr("output_dim: unknown key; it is called 'units' now"));
  EXPECT_THAT(ErrorOf(Parse(Sequential(json::array({Layer("Convolution2D", json::object())})))),
              HasSubstr("it is called 'Conv2D' now"));
  EXPECT_THAT(ErrorOf(Parse(Sequential(json::array({Layer("Dropout", {{"p", 0.5}})})))),
              HasSubstr("it is called 'rate' now"));
}

// Each changes what Keras computes.
TEST(KeysThatAreNotNeutral, AreRefused) {
  const json dense = Layer("Dense", kDense);
  const auto model = [](const json& layer) { return Sequential(json::array({layer})); };
  EXPECT_THAT(
      ErrorOf(Parse(model(dense), "sgd", Layer("CategoricalCrossentropy", {{"fn", "my_loss"}}))),
      HasSubstr("compile.loss.config.fn: is \"my_loss\""));
  EXPECT_TRUE(Parse(model(dense), "sgd",
                    Layer("CategoricalCrossentropy", {{"fn", "categorical_crossentropy"}}))
                  .ok());
  EXPECT_THAT(ErrorOf(Parse(model(dense), "sgd", "categorical_crossentropy",
                            json::array({Layer("CategoricalAccuracy", {{"fn", "mine"}})}))),
              HasSubstr("fn: is \"mine\""));
  EXPECT_TRUE(Parse(model(dense), Layer("Adam", {{"is_legacy_optimizer", true}})).ok());
  EXPECT_THAT(ErrorOf(Parse(model(Layer("Flatten", {{"dtype", "float16"}})))),
              HasSubstr("policies 'float32', 'mixed_bfloat16'"));
  const auto recurrent = [&](const json& dtype) {
    const json cell = Layer("LSTMCell", {{"units", 2}, {"dtype", dtype}});
    return Parse(model(Layer("RNN", {{"cell", cell}, {"input_shape", {4, 3}}})));
  };
  EXPECT_TRUE(recurrent("float32").ok()) << recurrent("float32").status();
  EXPECT_THAT(ErrorOf(recurrent("float64")),
              AllOf(HasSubstr("cell.config.dtype"), HasSubstr("policies 'float32'")));
  json own = dense;
  own["module"] = "my.layers";
  EXPECT_THAT(ErrorOf(Parse(model(own))),
              HasSubstr("'Dense' of the module 'my.layers', whose Python code"));
  own["module"] = "keras.layers";
  own["registered_name"] = "mine>Dense";
  EXPECT_THAT(ErrorOf(Parse(model(own))),
              HasSubstr("the registered class 'mine>Dense', whose Python code"));
  own["registered_name"] = nullptr;
  EXPECT_TRUE(Parse(model(own)).ok());
}

}  // namespace
}  // namespace cohort
