#include "coordinator/job/job_spec.h"

#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

namespace cohort {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::Pair;
using ::testing::UnorderedElementsAre;

std::string ReadShippedJob(const std::string& name) {
  std::ifstream file(COHORT_SOURCE_DIR "/deploy/jobs/" + name);
  std::stringstream text;
  text << file.rdbuf();
  EXPECT_FALSE(text.str().empty()) << name;
  return text.str();
}

JobSpec ParseShipped(const std::string& name, const std::vector<std::string>& overrides = {}) {
  absl::StatusOr<JobSpec> job = ParseJob(ReadShippedJob(name), name, overrides);
  EXPECT_TRUE(job.ok()) << job.status();
  return job.value_or(JobSpec());
}

// The shipped job with one replacement, which must occur.
absl::Status ParseDamaged(const std::string& from, const std::string& to) {
  std::string text = ReadShippedJob("mnist_mlp.json");
  const size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  if (at != std::string::npos) text.replace(at, from.size(), to);
  return ParseJob(text, "job.json", {}).status();
}

std::string Message(const absl::Status& status) {
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  return std::string(status.message());
}

// The R example of the TensorFlow blog on distributed strategies, value for value.
TEST(JobSpec, ShippedMnistJobIsTheRExample) {
  const JobSpec job = ParseShipped("mnist_mlp.json");
  ASSERT_EQ(job.model.layers.size(), 6u);
  const auto config = [&](size_t i) { return nlohmann::json::parse(job.model.layers[i].config); };
  EXPECT_THAT(job.model.layers[0].input()->shape, ElementsAre(784));
  EXPECT_EQ(config(1)["units"], 256);
  EXPECT_EQ(config(1)["activation"], "relu");
  EXPECT_EQ(config(1)["use_bias"], true);
  EXPECT_EQ(config(1)["kernel_initializer"]["class_name"], "GlorotUniform");
  EXPECT_EQ(config(1)["bias_initializer"]["class_name"], "Zeros");
  EXPECT_EQ(config(2)["rate"], 0.4);
  EXPECT_EQ(config(3)["units"], 128);
  EXPECT_EQ(config(3)["activation"], "relu");
  EXPECT_EQ(config(4)["rate"], 0.3);
  EXPECT_EQ(config(5)["units"], 10);
  EXPECT_EQ(config(5)["activation"], "softmax");

  EXPECT_EQ(job.compile.optimizer.class_name, "RMSprop");
  EXPECT_EQ(job.compile.optimizer.learning_rate, 0.001);
  EXPECT_THAT(job.compile.optimizer.parameters,
              UnorderedElementsAre(Pair("rho", 0.9), Pair("momentum", 0), Pair("epsilon", 1e-7),
                                   Pair("centered", 0), Pair("epsilon_outside_root", 0),
                                   Pair("weight_decay", 0), Pair("use_ema", 0),
                                   Pair("ema_momentum", 0.99), Pair("ema_overwrite_frequency", 0)));
  const OutputSpec& output = job.compile.outputs.at(0);
  EXPECT_EQ(output.loss.class_name, "CategoricalCrossentropy");
  EXPECT_FALSE(output.loss.config.Flag("from_logits"));
  ASSERT_EQ(output.metrics.size(), 1u);
  EXPECT_EQ(output.metrics[0].class_name, "accuracy");

  EXPECT_EQ(std::get<MnistSpec>(job.data.train).split, "train");
  EXPECT_EQ(std::get<MnistSpec>(*job.data.test).split, "test");
  ASSERT_EQ(job.data.pipeline.size(), 3u);
  EXPECT_EQ(job.data.pipeline[0].kind, TransformSpec::Kind::kFlatten);
  EXPECT_EQ(job.data.pipeline[1].kind, TransformSpec::Kind::kRescaling);
  EXPECT_EQ(job.data.pipeline[1].scale, 1.0 / 255);
  EXPECT_EQ(job.data.pipeline[2].kind, TransformSpec::Kind::kCategoryEncoding);
  EXPECT_EQ(job.data.pipeline[2].component, 1u);
  EXPECT_EQ(job.data.pipeline[2].num_tokens, 10);

  EXPECT_EQ(job.fit.epochs, 10);
  EXPECT_EQ(job.fit.batch_size, 128);
  EXPECT_EQ(job.fit.validation_split, 0.2);
  EXPECT_TRUE(job.fit.shuffle);
  EXPECT_EQ(job.strategy.type, "parameter_server");
}

TEST(JobSpec, TheSparseVariantDiffersInLabelsAndOptimizerOnly) {
  const JobSpec dense = ParseShipped("mnist_mlp.json");
  const JobSpec sparse = ParseShipped("mnist_mlp_sparse_adam.json");
  EXPECT_EQ(sparse.compile.outputs.at(0).loss.class_name, "SparseCategoricalCrossentropy");
  EXPECT_EQ(sparse.compile.optimizer.class_name, "Adam");
  EXPECT_EQ(sparse.compile.optimizer.learning_rate, 0.001);
  EXPECT_EQ(sparse.data.pipeline.size(), 2u);
  EXPECT_EQ(sparse.model, dense.model);
  EXPECT_EQ(sparse.fit, dense.fit);
}

TEST(JobSpec, WrittenJobsReadBackToTheSameValue) {
  const std::vector<std::string> everything = {
      "strategy.partitioner={\"class_name\":\"MaxSizePartitioner\",\"config\":"
      "{\"max_shard_bytes\":1000,\"max_shards\":3}}",
      "compile.loss={\"class_name\":\"CategoricalCrossentropy\",\"config\":"
      "{\"from_logits\":true,\"label_smoothing\":0.1}}",
      "compile.optimizer={\"class_name\":\"SGD\",\"config\":{\"momentum\":0.9,\"nesterov\":true,"
      "\"weight_decay\":0.01,\"exclude_from_weight_decay\":[\"bias\"],\"use_ema\":true,"
      "\"ema_from_start\":true,\"ema_overwrite_frequency\":5,\"clipnorm\":0.5,"
      "\"sparse_updates\":{\"dense/kernel\":\"lazy\",\"dense/bias\":\"dense_exact\"}}}",
      "compile.metrics=[\"acc\",{\"class_name\":\"CategoricalAccuracy\",\"config\":"
      "{\"name\":\"hits\"}},\"mse\",{\"class_name\":\"AUC\",\"config\":{\"curve\":\"PR\","
      "\"thresholds\":[0.2,0.7]}},{\"class_name\":\"R2Score\",\"config\":"
      "{\"class_aggregation\":null}},{\"class_name\":\"BinaryCrossentropy\",\"config\":"
      "{\"name\":\"bce\",\"fn\":\"binary_crossentropy\"}}]",
      "compile.loss_weights=[2.5]",
      "compile.weighted_metrics=[{\"class_name\":\"Precision\",\"config\":{\"top_k\":2}}]",
      "fit.class_weight={\"0\":1,\"3\":2.5}",
      "data.sample_weight=1",
      "model.config.layers.1.config.seed=5",
      "model.config.layers.2.config.kernel_initializer={\"class_name\":\"RandomNormal\","
      "\"config\":{\"stddev\":0.25,\"seed\":3}}",
      "data.train={\"class_name\":\"IDX\",\"config\":{\"paths\":[\"a\",\"b\"]}}",
      "data.test={\"class_name\":\"SyntheticDigits\",\"config\":{\"seed\":4,\"count\":9}}",
      "fit.steps_per_epoch=7",
      "compile.steps_per_execution=8",
      "fit.validation_batch_size=500",
      "checkpoint={\"directory\":\"d\",\"max_to_keep\":2,\"every_epochs\":3,\"restore\":"
      "\"latest\",\"init_from\":{\"path\":\"w\",\"map\":{\"a/kernel\":\"x\",\"b/kernel\":"
      "{\"from\":\"y\",\"transpose\":[1,0]}},\"weights_only\":true,\"skip_mismatch\":true}}",
      "export.onnx=model.onnx",
      "export.keras=m.keras",
      "export.weights_h5=m.weights.h5",
      "export.safetensors=m.safetensors",
      "export.tf_checkpoint=m",
      "strategy.consistency={\"class_name\":\"BoundedStaleness\",\"config\":{\"steps\":3}}",
      "strategy.compression={\"pull_dtype\":\"bfloat16\",\"push_dtype\":\"float16\","
      "\"top_k\":0.25}",
      "cluster.lease_timeout_ms=1234",
      "recovery={\"directory\":\"r\",\"interval_ms\":200,\"interval_steps\":7,\"max_steps\":99}",
  };
  const std::vector<std::string> synchronous = {
      "strategy.consistency={\"class_name\":\"Synchronous\",\"config\":{\"aggregate\":4,"
      "\"backup_steps\":1}}"};
  const std::vector<std::string> local = {
      "strategy={\"type\":\"mirrored\",\"devices\":[\"cpu:0\",\"cpu:1\"],\"cross_device_ops\":"
      "\"hierarchical_copy\",\"num_packs\":2,\"device\":\"cpu:3\",\"compute_devices\":"
      "[\"cpu:4\"],\"parameter_device\":\"/cpu:0\",\"communication_options\":"
      "{\"implementation\":\"ring\",\"bytes_per_pack\":5,\"timeout_seconds\":2.5,"
      "\"gradient_dtype\":\"bfloat16\"}}"};
  for (const auto& overrides : {std::vector<std::string>(), everything, synchronous, local}) {
    const JobSpec job = ParseShipped("mnist_mlp.json", overrides);
    const absl::StatusOr<JobSpec> again = ParseJob(JobToJson(job), "again", {});
    ASSERT_TRUE(again.ok()) << again.status();
    EXPECT_EQ(*again, job);
    EXPECT_EQ(JobToJson(*again), JobToJson(job));
  }
}

TEST(JobSpec, InitFromIsAPathOrAnObject) {
  const JobSpec path = ParseShipped("mnist_mlp.json", {"checkpoint.init_from=w.keras"});
  EXPECT_EQ(path.checkpoint.init_from.path, "w.keras");
  const JobSpec object = ParseShipped(
      "mnist_mlp.json", {R"(checkpoint.init_from={"path": "w", "map": {"a": "x", "b": {"from": "y",
          "transpose": [1, 0]}}, "skip_mismatch": true})"});
  const InitFromSpec& init = object.checkpoint.init_from;
  EXPECT_EQ(init.path, "w");
  EXPECT_EQ(init.map.at("a"), (InitFromSpec::Source{"x", {}}));
  EXPECT_EQ(init.map.at("b"), (InitFromSpec::Source{"y", {1, 0}}));
  EXPECT_TRUE(init.skip_mismatch);
  EXPECT_FALSE(init.weights_only);
  // A job without it is written as before: recovery checkpoints compare that text.
  EXPECT_EQ(JobToJson(ParseShipped("mnist_mlp.json", {})).find("init_from"), std::string::npos);
}

TEST(JobSpec, InitFromWithoutAFileOrAValueIsRefused) {
  for (const auto& [init, message] : std::vector<std::pair<std::string, std::string>>{
           {R"({"map": {}})", "checkpoint.init_from.path: is missing or empty"},
           {R"({"path": "w", "map": {"a": ""}})", "checkpoint.init_from.map.a: names no value"},
           {R"({"path": "w", "map": {"a": {"transpose": [0]}}})", "names no value"},
           {R"({"path": "w", "other": 1})", "other"},
           {"7", "checkpoint.init_from"}}) {
    const absl::StatusOr<JobSpec> job = ParseJob(ReadShippedJob("mnist_mlp.json"), "job.json",
                                                 {absl::StrCat("checkpoint.init_from=", init)});
    EXPECT_TRUE(absl::IsInvalidArgument(job.status())) << init;
    EXPECT_THAT(std::string(job.status().message()), testing::HasSubstr(message));
  }
}

// TensorFlow's CommunicationImplementation is "AUTO", "RING" or "NCCL".
TEST(JobSpec, ChoicesAreTakenInAnyCase) {
  const JobSpec job = ParseShipped(
      "mnist_mlp.json", {"strategy.communication_options={\"implementation\":\"RING\"}"});
  EXPECT_EQ(job.strategy.communication.implementation, "ring");
}

TEST(JobSpec, UnknownKeysNameTheirPathAndTheNearestKnownKey) {
  EXPECT_THAT(Message(ParseDamaged("\"epochs\"", "\"epoch\"")),
              AllOf(HasSubstr("job.json: fit.epoch: unknown key"), HasSubstr("'epochs'")));
  EXPECT_THAT(Message(ParseDamaged("\"fit\"", "\"fti\"")),
              AllOf(HasSubstr("job.json: fti: unknown key"), HasSubstr("nearest is 'fit'")));
  EXPECT_THAT(Message(ParseDamaged("\"units\": 128", "\"unit\": 128")),
              AllOf(HasSubstr("model.config.layers.2.config.unit: unknown key"),
                    HasSubstr("model.config.layers.2.config.units: is missing")));
  EXPECT_THAT(Message(ParseDamaged("\"learning_rate\"", "\"learningrate\"")),
              HasSubstr("'learning_rate'"));
  EXPECT_THAT(Message(ParseDamaged("\"class_name\": \"Dropout\"", "\"class\": \"Dropout\"")),
              AllOf(HasSubstr("layers.1.class: unknown key"), HasSubstr("'class_name'")));
  EXPECT_THAT(Message(ParseDamaged("\"class_name\": \"Dropout\"", "\"class_name\": \"\"")),
              HasSubstr("layers.1.class_name: is empty; it must name a class"));
}

TEST(JobSpec, UnknownNamesNameTheNearestKnownOne) {
  EXPECT_THAT(Message(ParseDamaged("\"Dropout\"", "\"DropOut1\"")),
              AllOf(HasSubstr("model.config.layers.1: 'DropOut1' is not a known layer"),
                    HasSubstr("nearest is 'Dropout'")));
  EXPECT_THAT(Message(ParseDamaged("\"relu\"", "\"rleu\"")),
              AllOf(HasSubstr("config.activation: 'rleu'"), HasSubstr("'relu'")));
  EXPECT_THAT(Message(ParseDamaged("\"RMSprop\"", "\"RMSprob\"")),
              AllOf(HasSubstr("compile.optimizer"), HasSubstr("'RMSprop'")));
  EXPECT_THAT(Message(ParseDamaged("categorical_crossentropy", "categorical_crosentropy")),
              AllOf(HasSubstr("compile.loss"), HasSubstr("'categorical_crossentropy'")));
  EXPECT_THAT(Message(ParseDamaged("\"accuracy\"", "\"acuracy\"")),
              AllOf(HasSubstr("compile.metrics.0"), HasSubstr("'accuracy'")));
  EXPECT_THAT(Message(ParseDamaged("\"MNIST\"", "\"MINST\"")),
              AllOf(HasSubstr("data.train"), HasSubstr("'MNIST'")));
  EXPECT_THAT(Message(ParseDamaged("\"parameter_server\"", "\"mirorred\"")),
              AllOf(HasSubstr("strategy.type: is \"mirorred\""), HasSubstr("'parameter_server'"),
                    HasSubstr("'mirrored'")));
  EXPECT_THAT(Message(ParseDamaged("\"parameter_server\"", "\"mirrored\", \"devices\": \"cpu:0\"")),
              AllOf(HasSubstr("strategy.devices: is \"cpu:0\""), HasSubstr("a list of devices")));
  EXPECT_THAT(
      Message(ParseDamaged("\"parameter_server\"", "\"mirrored\", \"cross_device_ops\": \"ring\"")),
      AllOf(HasSubstr("strategy.cross_device_ops"), HasSubstr("'hierarchical_copy'")));
  EXPECT_THAT(Message(ParseDamaged("\"parameter_server\"",
                                   "\"parameter_server\", \"consistency\": \"Boundedstaleness\"")),
              AllOf(HasSubstr("strategy.consistency: 'Boundedstaleness'"),
                    HasSubstr("'BoundedStaleness'")));
}

// What parameter_server's options ask of the rest of a job is of no concern to another strategy.
TEST(JobSpec, AJobChangesItsStrategyByOneWord) {
  const std::vector<std::string> rounds = {
      "strategy.consistency={\"class_name\":\"Synchronous\",\"config\":{\"aggregate\":400}}",
      "compile.steps_per_execution=4"};
  const auto parse = [&](const std::string& type) {
    std::vector<std::string> overrides = rounds;
    overrides.push_back("strategy.type=" + type);
    return ParseJob(ReadShippedJob("mnist_mlp.json"), "job", overrides);
  };
  EXPECT_THAT(Message(parse("parameter_server").status()),
              AllOf(HasSubstr("cluster.queue_size"),
                    HasSubstr("compile.steps_per_execution: is 4, but with strategy.consistency")));
  for (const std::string type : {"mirrored", "central_storage", "one_device", "default"}) {
    const auto job = parse(type);
    ASSERT_TRUE(job.ok()) << job.status();
    EXPECT_EQ(job->strategy.type, type);
    EXPECT_EQ(job->strategy.synchronous(), nullptr);
  }
}

TEST(JobSpec, WrongValuesNamePathValueAndWhatTheyMayBe) {
  const auto expect = [](const std::string& from, const std::string& to,
                         const std::vector<std::string>& parts) {
    const std::string message = Message(ParseDamaged(from, to));
    for (const std::string& part : parts) EXPECT_THAT(message, HasSubstr(part));
  };
  expect("\"epochs\": 10", "\"epochs\": 0", {"fit.epochs: is 0", "from 1 to"});
  expect("\"epochs\": 10", "\"epochs\": \"ten\"", {"fit.epochs: is \"ten\"", "an integer"});
  expect("\"epochs\": 10", "\"epochs\": 1.5", {"fit.epochs: is 1.5", "an integer"});
  expect("\"epochs\": 10", "\"epochs\": 18446744073709551615", {"fit.epochs", "an integer"});
  expect("\"epochs\": 10", "\"epochs\": true", {"fit.epochs: is true"});
  expect("\"rate\": 0.4", "\"rate\": 1", {"layers.1.config.rate: is 1", "[0, 1)"});
  expect("\"rate\": 0.4", "\"rate\": -0.1", {"is -0.1", "[0, 1)"});
  expect("\"units\": 128", "\"units\": -5", {"layers.2.config.units: is -5"});
  expect("[784]", "[784, 0]", {"input_shape: is [784,0]"});
  expect("[784]", "784", {"input_shape: is 784", "a list"});
  expect("\"validation_split\": 0.2", "\"validation_split\": 1",
         {"fit.validation_split", "[0, 1)"});
  expect("[\"accuracy\"]", "\"accuracy\"", {"compile.metrics: is \"accuracy\"", "a list"});
  expect("[\"accuracy\"]", "[\"accuracy\", \"accuracy\"]", {"compile.metrics.1", "is taken"});
  expect("[\"accuracy\"]", "[\"accuracy\"], \"steps_per_execution\": 0",
         {"compile.steps_per_execution: is 0", "from 1 to 4096"});
  expect("[\"accuracy\"]", "[\"accuracy\"], \"steps_per_execution\": \"auto\"",
         {"compile.steps_per_execution: is 'auto'", "write a number of steps, such as 8"});
  expect("\"seed\": 1", "\"seed\": -1", {"seed: is -1", "at least 0"});
  expect("{\"type\": \"parameter_server\"}", "[]", {"strategy: is []", "an object"});
  expect("\"parameter_server\"",
         "\"parameter_server\", \"consistency\": {\"class_name\": \"Synchronous\", \"config\": "
         "{\"aggregate\": 200}}",
         {"cluster.queue_size: is 256, less than twice", "which is 200"});
  expect("\"parameter_server\"",
         "\"parameter_server\", \"compression\": {\"pull_dtype\": \"int8\"}",
         {"strategy.compression.pull_dtype: is \"int8\"", "'bfloat16'"});
  expect("\"parameter_server\"", "\"parameter_server\", \"compression\": {\"top_k\": 0}",
         {"strategy.compression.top_k: is 0", "(0, 1]"});
  expect("\"rate\": 0.4", "\"rate\": 0.4, \"name\": \"a/b\"", {"config.name: is 'a/b'"});
  expect("\"rate\": 0.4", "\"rate\": 0.4, \"noise_shape\": \"x\"",
         {"noise_shape", "not supported"});
  expect("\"rate\": 0.4", "\"rate\": 0.4, \"input_shape\": [3]", {"only the first layer"});
  expect("\"rho\": 0.9", "\"loss_scale_factor\": -2.0",
         {"config.loss_scale_factor: is -2.0", "above 0"});
  expect("\"rho\": 0.9", "\"clipnorm\": -1", {"config.clipnorm: is -1", "at least 0"});
  expect("\"rho\": 0.9", "\"clipvalue\": 1, \"global_clipnorm\": 1",
         {"config.clipvalue: is given beside global_clipnorm"});
  expect("\"rho\": 0.9", "\"ema_overwrite_frequency\": 1.5",
         {"config.ema_overwrite_frequency: is 1.5", "an integer"});
  expect("\"rho\": 0.9", "\"sparse_updates\": \"eager\"",
         {"config.sparse_updates: is \"eager\"", "'lazy_compensated'"});
  expect("\"rho\": 0.9", "\"sparse_updates\": {\"a/b\": 1}", {"sparse_updates.a/b: is 1"});
}

TEST(JobSpec, OneSparseModeIsOfAllVariables) {
  const std::string key = "compile.optimizer.config.sparse_updates=";
  const auto modes = [&](const std::string& value) {
    return ParseShipped("mnist_mlp.json", {key + value}).compile.optimizer.sparse_updates;
  };
  EXPECT_THAT(modes("lazy_compensated"),
              testing::ElementsAre(testing::Pair("", "lazy_compensated")));
  EXPECT_THAT(modes("dense_exact"), testing::IsEmpty());
  EXPECT_THAT(modes("{\"a\":\"lazy\"}"), testing::ElementsAre(testing::Pair("a", "lazy")));
}

TEST(JobSpec, EveryErrorIsReportedAtOnce) {
  const std::string message =
      Message(ParseJob(ReadShippedJob("mnist_mlp.json"), "job.json",
                       {"fit.epochs=0", "fit.batchsize=3", "model.config.layers.0.config.units=0",
                        "compile.optimizer=addam", "data.train.config.split=all"})
                  .status());
  for (const char* part : {"fit.epochs", "fit.batchsize", "layers.0.config.units",
                           "compile.optimizer", "data.train.config.split"}) {
    EXPECT_THAT(message, HasSubstr(part));
  }
}

TEST(JobSpec, MissingSectionsAreNamed) {
  const std::string message = Message(ParseJob("{}", "job.json", {}).status());
  for (const char* part : {"model: is missing", "compile: is missing", "data: is missing"}) {
    EXPECT_THAT(message, HasSubstr(part));
  }
}

TEST(JobSpec, TextThatIsNoStrictJsonIsAnErrorWithItsPlace) {
  EXPECT_THAT(Message(ParseJob("", "f", {}).status()), HasSubstr("line 1"));
  EXPECT_THAT(Message(ParseJob("{\n\"a\" 1}", "f", {}).status()), HasSubstr("line 2"));
  EXPECT_THAT(Message(ParseJob("{} {}", "f", {}).status()), HasSubstr("column"));
  EXPECT_THAT(Message(ParseJob("[1]", "f", {}).status()), HasSubstr("an object"));
  EXPECT_THAT(Message(ParseJob("{\"fit\": {\"epochs\": 1, \"epochs\": 2}}", "f", {}).status()),
              HasSubstr("fit.epochs: given twice"));
  EXPECT_THAT(Message(ParseJob("{\"name\": \"\xff\"}", "f", {}).status()), HasSubstr("UTF-8"));
  const std::string deep = std::string(100000, '[') + std::string(100000, ']');
  EXPECT_THAT(Message(ParseJob(deep, "f", {}).status()), HasSubstr("levels deep"));
  EXPECT_THAT(Message(ParseJob(std::string(kJobFileBytesMax + 1, ' '), "f", {}).status()),
              HasSubstr("bytes"));
}

TEST(JobSpec, LayersWithoutANameGetKerasNames) {
  const JobSpec job = ParseShipped("mnist_mlp.json", {"model.config.layers.2.config.name=dense"});
  std::vector<std::string> names;
  for (const LayerSpec& layer : job.model.layers) names.push_back(layer.name);
  EXPECT_THAT(names, ElementsAre("input", "dense_1", "dropout", "dense", "dropout_1", "dense_2"));
  EXPECT_THAT(Message(ParseJob(ReadShippedJob("mnist_mlp.json"), "f",
                               {"model.config.layers.2.config.name=d",
                                "model.config.layers.4.config.name=d"})
                          .status()),
              HasSubstr("two layers are named 'd'"));
}

TEST(JobSpec, WholeNumbersWrittenAsDecimalsAreIntegers) {
  EXPECT_EQ(ParseShipped("mnist_mlp.json", {"fit.epochs=3.0"}).fit.epochs, 3);
}

TEST(JobSpec, ClusterTimesAreMillisecondsInTheFile) {
  const JobSpec job = ParseShipped("mnist_mlp.json", {"cluster.connect_timeout_ms=1500"});
  EXPECT_EQ(job.cluster.connect_timeout, absl::Milliseconds(1500));
}

TEST(JobSpec, RecoveryCheckpointsComeByTimeOrBySteps) {
  const RecoverySpec by_time = ParseShipped("mnist_mlp.json").recovery;
  EXPECT_EQ(by_time.interval, absl::Seconds(10));
  EXPECT_EQ(by_time.interval_steps, 0);
  EXPECT_EQ(ParseShipped("mnist_mlp.json", {"recovery.interval_steps=500"}).recovery.interval_steps,
            500);
}

TEST(JobSpec, ALeaseBelowAHeartbeatIsRefused) {
  const auto with = [](int ms) {
    return ParseJob(ReadShippedJob("mnist_mlp.json"), "job",
                    {absl::StrCat("cluster.lease_timeout_ms=", ms)});
  };
  EXPECT_THAT(std::string(with(99).status().message()),
              AllOf(HasSubstr("cluster.lease_timeout_ms: is 99"), HasSubstr("at least 100")));
  EXPECT_TRUE(with(100).ok()) << with(100).status();
}

TEST(JobSpec, MnistSaysWhatIsTakenWhereThereIsNone) {
  const JobSpec shipped = ParseShipped("mnist_mlp.json", {});
  EXPECT_TRUE(std::get<MnistSpec>(shipped.data.train).or_synthetic_digits);
  EXPECT_TRUE(std::get<MnistSpec>(*shipped.data.test).or_synthetic_digits);
  const JobSpec silent = ParseShipped("mnist_mlp.json", {R"(data.train={"class_name":"MNIST"})"});
  EXPECT_FALSE(std::get<MnistSpec>(silent.data.train).or_synthetic_digits);
  const auto refused = [](const char* config) {
    return std::string(ParseJob(ReadShippedJob("mnist_mlp.json"), "job",
                                {absl::StrCat("data.train.config=", config)})
                           .status()
                           .message());
  };
  EXPECT_THAT(refused(R"({"otherwise": "digits"})"), HasSubstr("'synthetic_digits'"));
  EXPECT_THAT(refused(R"({"otherwise": "synthetic_digits", "images": "a", "labels": "b"})"),
              HasSubstr("stands beside images"));
}

// A file may be of any size, and a message is not.
TEST(JobSpec, AnErrorQuotesLittleOfTheFile) {
  const std::string long_text(5000, 'x');
  for (const std::string& each :
       {absl::StrCat("model.", long_text, "=1"), absl::StrCat("model.class_name=", long_text),
        absl::StrCat("compile.loss=", long_text), absl::StrCat("fit.epochs=", long_text)}) {
    const auto job = ParseJob(ReadShippedJob("mnist_mlp.json"), "job", {each});
    EXPECT_FALSE(job.ok());
    EXPECT_THAT(std::string(job.status().message()), Not(HasSubstr(std::string(65, 'x'))));
  }
  const auto broken = ParseJob(absl::StrCat("{\"name\": \"", long_text), "job", {});
  EXPECT_THAT(std::string(broken.status().message()),
              AllOf(HasSubstr("missing closing quote"), Not(HasSubstr(std::string(65, 'x')))));
}

}  // namespace
}  // namespace cohort
