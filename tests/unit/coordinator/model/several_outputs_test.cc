// Models with several outputs: what Keras reports and trains (tests/golden/keras/make_outputs.py
// and pack_multiout.py) against our programs, and which labels an output reads.

#include <map>
#include <random>
#include <string>
#include <vector>

#include "common/runtime/update/make_update_kernel.h"
#include "coordinator/job/data_spec.h"
#include "coordinator/model/learning_rate.h"
#include "coordinator/model/model_programs.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/unit/coordinator/model/model_test_support.h"
#include "tests/unit/coordinator/model/trained_variable.h"

namespace cohort {
namespace {

using nlohmann::json;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

Tensor TensorOf(const json& golden) {
  const Shape shape(golden.at("dims").get<std::vector<int64_t>>());
  return golden.at("dtype") == "float32" ? FloatTensor(golden.at("values"), shape)
                                         : Int64Tensor(golden.at("values"), shape);
}

// Returns a job on IDX files, of which the first has x.
absl::StatusOr<JobSpec> JobOf(const json& model, const json& compile, size_t files, json data) {
  data["train"] = {{"class_name", "IDX"},
                   {"config", {{"paths", std::vector<std::string>(files, "file")}}}};
  return ParseJob(json{{"model", model}, {"compile", compile}, {"data", data}}.dump(), "job", {});
}

proto::ElementSpec TypeOf(const std::vector<Tensor>& batch) {
  proto::ElementSpec element;
  for (const Tensor& tensor : batch) {
    std::vector<int64_t> dims(tensor.shape().dims().begin(), tensor.shape().dims().end());
    dims[0] = -1;
    *element.add_components() = Component(tensor.dtype(), dims);
  }
  return element;
}

// Makes of the labels what the data sets do.
void MakeClasses(const ModelPrograms& programs, std::vector<Tensor>& batch) {
  for (const proto::DatasetTransform& transform : programs.labels) {
    Tensor& labels = batch.at(transform.class_labels().component());
    std::vector<int64_t> classes(static_cast<size_t>(labels.num_elements()));
    for (size_t i = 0; i < classes.size(); ++i) classes[i] = labels.data<int64_t>()[i];
    const auto count = static_cast<int64_t>(classes.size());
    labels = Tensor::FromVector<int64_t>(std::move(classes), {count});
  }
}

// The numbers that steps report, by name, from the sums of what they fetch.
std::map<std::string, double> Reported(const ModelPrograms& programs,
                                       const std::vector<double>& sums) {
  std::map<std::string, double> reported = {{"loss", sums[0] / sums[1]}};
  for (const auto& [name, value] :
       NamedMetrics(programs.metrics, programs.metric_sizes, {sums.data() + 2, sums.size() - 2})) {
    reported[name] = value;
  }
  return reported;
}

// Adds the fetches of one step to the sums.
void AddFetches(const std::vector<Tensor>& outputs, const ModelPrograms& programs,
                std::vector<double>& sums) {
  std::vector<double> values = {*outputs.at(0).data<float>(), *outputs.at(1).data<float>()};
  for (size_t i = 2; i < programs.fetch_names.size(); ++i) {
    for (const double value : outputs.at(i).span<double>()) values.push_back(value);
  }
  sums.resize(values.size());
  for (size_t i = 0; i < values.size(); ++i) sums[i] += values[i];
}

// A case of outputs.json, built.
struct OutputsCase {
  json golden;
  std::vector<Tensor> batch;
  absl::StatusOr<ModelPrograms> programs = absl::UnknownError("not built");
  std::map<std::string, Tensor> values = {};
};

OutputsCase Load(const json& golden) {
  OutputsCase one{golden, {TensorOf(golden.at("x"))}};
  for (const json& labels : golden.at("labels")) one.batch.push_back(TensorOf(labels));
  json data = json::object();
  for (const auto& [output, weights] : golden.at("sample_weight").items()) {
    data["sample_weight"][output] = one.batch.size();
    one.batch.push_back(TensorOf(weights));
  }
  const auto job = JobOf(golden.at("model"), golden.at("compile"), one.batch.size(), data);
  EXPECT_TRUE(job.ok()) << job.status();
  if (!job.ok()) return one;
  const auto again = ParseJob(JobToJson(*job), "written", {});
  EXPECT_TRUE(again.ok() && *again == *job) << again.status() << JobToJson(*job);
  one.programs = BuildPrograms(*job, TypeOf(one.batch));
  EXPECT_TRUE(one.programs.ok()) << one.programs.status();
  if (!one.programs.ok()) return one;
  MakeClasses(*one.programs, one.batch);
  for (size_t i = 0; i < one.programs->variables.size(); ++i) {
    const VariableSpec& variable = one.programs->variables[i];
    EXPECT_EQ(variable.name, golden.at("names").at(i));
    one.values[variable.name] = FloatTensor(golden.at("weights").at(i), variable.shape);
  }
  return one;
}

void ExpectReportedAndTrainedAsInKeras(const json& cases) {
  for (const json& golden : cases) {
    SCOPED_TRACE(golden.at("name").get<std::string>());
    const OutputsCase one = Load(golden);
    ASSERT_TRUE(one.programs.ok());
    const auto evaluated = RunProgram(one.programs->eval_step, one.batch, one.values);
    ASSERT_TRUE(evaluated.ok()) << evaluated.status();
    std::vector<double> sums;
    AddFetches(*evaluated, *one.programs, sums);
    const std::map<std::string, double> reported = Reported(*one.programs, sums);
    EXPECT_EQ(reported.size(), golden.at("reported").size());
    for (const auto& [name, value] : golden.at("reported").items()) {
      ASSERT_TRUE(reported.contains(name)) << name;
      EXPECT_NEAR(reported.at(name), value.get<double>(), 5e-6) << name;
    }
    // Keras made one step of SGD with learning rate 1.
    const auto trained = RunProgram(one.programs->train_step, one.batch, one.values);
    ASSERT_TRUE(trained.ok()) << trained.status();
    EXPECT_EQ(*trained->at(0).data<float>(), *evaluated->at(0).data<float>());
    const size_t first = one.programs->fetch_names.size();
    for (size_t i = 0; i < one.programs->variables.size(); ++i) {
      const VariableSpec& variable = one.programs->variables[i];
      Tensor after = one.values.at(variable.name).Clone();
      for (int64_t k = 0; k < after.num_elements(); ++k) {
        after.mutable_data<float>()[k] -= trained->at(first + i).data<float>()[k];
      }
      EXPECT_LT(LargestError(after, FloatTensor(golden.at("after").at(i), variable.shape)), 5e-6)
          << variable.name;
    }
  }
}

TEST(SeveralOutputs, ReportAndTrainAsInKeras) {
  const json cases = ReadGolden("keras/outputs.json").value("cases", json::array());
  ASSERT_EQ(cases.size(), 5u);
  ExpectReportedAndTrainedAsInKeras(cases);
}

// Losses and metrics count where the mask of the output is true, as each version of Keras counts.
TEST(MaskedOutput, ReportsAndTrainsAsInKeras) {
  const json cases = ReadGolden("keras/masked.json").value("cases", json::array());
  ASSERT_EQ(cases.size(), 5u);
  ExpectReportedAndTrainedAsInKeras(cases);
}

TEST(SeveralOutputs, PredictionsHaveAllOutputs) {
  const json golden = ReadGolden("keras/outputs.json").at("cases").at(2);
  const OutputsCase one = Load(golden);
  ASSERT_TRUE(one.programs.ok());
  const auto outputs = RunProgram(one.programs->predict, one.batch, one.values);
  ASSERT_TRUE(outputs.ok()) << outputs.status();
  ASSERT_EQ(outputs->size(), 3u);
  EXPECT_EQ(outputs->at(0).shape(), Shape({7, 4}));
  EXPECT_EQ(outputs->at(1).shape(), Shape({7, 2}));
  EXPECT_EQ(outputs->at(2).shape(), Shape({7, 1}));
}

// Returns a tensor of random numbers by the rule of the curves: as numpy's RandomState draws them.
Tensor Drawn(const json& rule) {
  std::mt19937 generator(rule.at("seed").get<uint32_t>());
  const Shape shape(rule.at("shape").get<std::vector<int64_t>>());
  const double low = rule.at("low");
  const double high = rule.at("high");
  std::vector<float> values(static_cast<size_t>(shape.num_elements()));
  for (float& value : values) {
    const double a = generator() >> 5;
    const double b = generator() >> 6;
    value = static_cast<float>(low + (high - low) * ((a * 67108864.0 + b) / 9007199254740992.0));
  }
  return Tensor::FromVector<float>(std::move(values), shape);
}

void ExpectNear(const std::map<std::string, double>& reported, const json& golden) {
  EXPECT_EQ(reported.size(), golden.size());
  for (const auto& [name, one] : golden.items()) {
    ASSERT_TRUE(reported.contains(name)) << name;
    EXPECT_NEAR(reported.at(name), one.at("value").get<double>(), one.at("spread").get<double>())
        << name;
  }
}

// A training of a model with three losses, two of them with a weight. Thread-compatible.
class CurveRun {
 public:
  explicit CurveRun(const json& golden) : golden_(golden), rows_(golden.at("batch")) {}

  void Build() {
    all_.push_back(Drawn(golden_.at("inputs").at(0)));
    for (const json& target : golden_.at("targets")) {
      all_.push_back(TensorOf({{"dims", target.at("shape")},
                               {"dtype", target.at("dtype")},
                               {"values", target.at("data")}}));
    }
    const json compile = {
        {"optimizer", golden_.at("optimizer")},
        {"loss", golden_.at("loss")},
        {"loss_weights", golden_.at("loss_weights")},
        {"metrics", {{"cls", {"accuracy"}}, {"reg", {"mae", "mse"}}, {"bin", {"accuracy"}}}}};
    const auto job = JobOf(golden_.at("model"), compile, all_.size(), json::object());
    ASSERT_TRUE(job.ok()) << job.status();
    optimizer_ = job->compile.optimizer;
    auto programs = BuildPrograms(*job, TypeOf(all_));
    ASSERT_TRUE(programs.ok()) << programs.status();
    programs_ = *std::move(programs);
    MakeClasses(programs_, all_);
    const auto rule = DescribeUpdateRule(programs_.update_rule);
    ASSERT_TRUE(rule.ok()) << rule.status();
    for (size_t i = 0; i < programs_.variables.size(); ++i) {
      variables_.push_back(TrainedVariable::Begin(Drawn(golden_.at("start_weights").at(i)), *rule));
    }
  }

  void Train() {
    const auto kernel = MakeUpdateKernel(programs_.update_rule);
    ASSERT_TRUE(kernel.ok()) << kernel.status();
    const json& losses = golden_.at("losses");
    std::vector<double> sums;
    for (size_t step = 0; step < losses.size(); ++step) {
      std::vector<Tensor> batch;
      const int64_t begin = static_cast<int64_t>(step) * rows_;
      for (const Tensor& one : all_) batch.push_back(one.Rows(begin, rows_));
      const auto outputs = RunProgram(programs_.train_step, batch, Values());
      ASSERT_TRUE(outputs.ok()) << outputs.status();
      EXPECT_NEAR(*outputs->at(0).data<float>() / static_cast<double>(rows_),
                  losses[step].get<double>(), golden_.at("spread").at(step).get<double>())
          << "step " << step;
      AddFetches(*outputs, programs_, sums);
      const double rate = LearningRateAt(optimizer_, static_cast<int64_t>(step));
      for (size_t i = 0; i < variables_.size(); ++i) {
        variables_[i].Apply(**kernel, outputs->at(programs_.fetch_names.size() + i), rate,
                            step + 1);
      }
    }
    ExpectNear(Reported(programs_, sums), golden_.at("train_metrics"));
  }

  void Evaluate() {
    const auto outputs = RunProgram(programs_.eval_step, all_, Values());
    ASSERT_TRUE(outputs.ok()) << outputs.status();
    std::vector<double> sums;
    AddFetches(*outputs, programs_, sums);
    ExpectNear(Reported(programs_, sums), golden_.at("evaluate"));
    for (size_t i = 0; i < variables_.size(); ++i) {
      const json& weight = golden_.at("weights").at(i);
      const Tensor expected = FloatTensor(weight.at("data"), programs_.variables[i].shape);
      EXPECT_LE(LargestError(variables_[i].value, expected), weight.at("spread").get<double>())
          << programs_.variables[i].name;
    }
  }

 private:
  std::map<std::string, Tensor> Values() const {
    std::map<std::string, Tensor> values;
    for (size_t i = 0; i < variables_.size(); ++i) {
      values[programs_.variables[i].name] = variables_[i].value;
    }
    return values;
  }

  const json& golden_;
  const int64_t rows_;
  std::vector<Tensor> all_;
  OptimizerSpec optimizer_;
  ModelPrograms programs_;
  std::vector<TrainedVariable> variables_;
};

TEST(SeveralOutputs, FollowTheTrainingCurvesOfBothVersionsOfKeras) {
  const json cases = ReadGolden("keras/multiout.json").value("cases", json::array());
  ASSERT_EQ(cases.size(), 2u);
  for (const json& golden : cases) {
    SCOPED_TRACE(golden.at("keras").get<std::string>());
    CurveRun run(golden);
    run.Build();
    if (HasFatalFailure()) return;
    run.Train();
    if (HasFatalFailure()) return;
    run.Evaluate();
  }
}

json Layer(const char* class_name, json config, const char* input) {
  json layer = {{"class_name", class_name}, {"config", std::move(config)}};
  layer["inbound_nodes"] = json::array();
  if (input != nullptr) {
    layer["inbound_nodes"] = json::array({json::array({json::array({input, 0, 0})})});
  }
  return layer;
}

// x [N,2] to a [N,3], the classes, and b [N,1].
json TwoHeads() {
  json model = {{"class_name", "Functional"}};
  model["config"]["layers"] = {
      Layer("InputLayer", {{"name", "x"}, {"batch_shape", {nullptr, 2}}}, nullptr),
      Layer("Dense", {{"name", "a"}, {"units", 3}, {"activation", "softmax"}}, "x"),
      Layer("Dense", {{"name", "b"}, {"units", 1}}, "x")};
  model["config"]["input_layers"] = json::parse(R"([["x", 0, 0]])");
  model["config"]["output_layers"] = json::parse(R"([["a", 0, 0], ["b", 0, 0]])");
  return model;
}

json TwoLosses() { return {{"loss", {{"a", "sparse_categorical_crossentropy"}, {"b", "mse"}}}}; }

// Returns the component of a batch that an input of the program is.
uint32_t ComponentOf(const proto::Program& program, const std::string& input) {
  for (const proto::InputBinding& binding : program.inputs()) {
    if (binding.input() == input) return binding.batch_component();
  }
  ADD_FAILURE() << "no input " << input;
  return 0;
}

proto::ElementSpec Columns(const std::vector<proto::ComponentSpec>& components) {
  proto::ElementSpec batch;
  for (const proto::ComponentSpec& one : components) *batch.add_components() = one;
  return batch;
}

proto::ComponentSpec X() { return Component(DType::kFloat32, {-1, 2}); }
proto::ComponentSpec Classes() { return Component(DType::kUint8, {-1}); }
proto::ComponentSpec Numbers() { return Component(DType::kFloat32, {-1, 1}); }

TEST(SeveralOutputs, LabelsComeInTheirOrderOrAsTheJobNamesThem) {
  const auto in_order = JobOf(TwoHeads(), TwoLosses(), 3, json::object());
  ASSERT_TRUE(in_order.ok()) << in_order.status();
  auto programs = BuildPrograms(*in_order, Columns({X(), Classes(), Numbers()}));
  ASSERT_TRUE(programs.ok()) << programs.status();
  EXPECT_EQ(ComponentOf(programs->train_step, "y:a"), 1u);
  EXPECT_EQ(ComponentOf(programs->train_step, "y:b"), 2u);
  ASSERT_EQ(programs->labels.size(), 1u);
  EXPECT_EQ(programs->labels[0].class_labels().component(), 1u);
  EXPECT_EQ(programs->labels[0].class_labels().classes(), 3);
  EXPECT_THAT(programs->fetch_names, ElementsAre("loss_sum", "count", "a_loss", "b_loss"));
  for (const json& labels : {json::array({2, 1}), json{{"a", 2}, {"b", 1}}}) {
    const auto named = JobOf(TwoHeads(), TwoLosses(), 3, {{"labels", labels}});
    ASSERT_TRUE(named.ok()) << named.status();
    const auto again = ParseJob(JobToJson(*named), "written", {});
    ASSERT_TRUE(again.ok() && *again == *named) << again.status();
    programs = BuildPrograms(*named, Columns({X(), Numbers(), Classes()}));
    ASSERT_TRUE(programs.ok()) << programs.status();
    EXPECT_EQ(ComponentOf(programs->train_step, "y:a"), 2u);
    EXPECT_EQ(ComponentOf(programs->train_step, "y:b"), 1u);
    EXPECT_EQ(programs->labels.at(0).class_labels().component(), 2u);
  }
}

TEST(SeveralOutputs, NamedColumnsAreThoseOfTheOutputs) {
  const auto job = JobOf(TwoHeads(), TwoLosses(), 3, json::object());
  proto::ElementSpec batch = Columns({Numbers(), X(), Classes()});
  const char* const names[] = {"b", "x", "a"};
  for (int i = 0; i < 3; ++i) batch.mutable_components(i)->set_name(names[i]);
  const auto programs = BuildPrograms(*job, batch);
  ASSERT_TRUE(programs.ok()) << programs.status();
  EXPECT_EQ(ComponentOf(programs->eval_step, "y:a"), 2u);
  EXPECT_EQ(ComponentOf(programs->eval_step, "y:b"), 0u);
  batch.mutable_components(0)->set_name("label");
  EXPECT_THAT(std::string(BuildPrograms(*job, batch).status().message()),
              testing::AllOf(HasSubstr("reads 'b', but the data has no such column"),
                             HasSubstr("data.labels")));
}

TEST(SeveralOutputs, OneWithoutALossNeedsNoLabelsUnlessItHasMetrics) {
  json compile = {{"loss", {{"b", "mse"}}}};
  auto job = JobOf(TwoHeads(), compile, 2, json::object());
  ASSERT_TRUE(job.ok()) << job.status();
  auto programs = BuildPrograms(*job, Columns({X(), Numbers()}));
  ASSERT_TRUE(programs.ok()) << programs.status();
  EXPECT_THAT(programs->fetch_names, ElementsAre("loss_sum", "count"));
  EXPECT_TRUE(programs->labels.empty());
  compile["metrics"] = {{"a", {"accuracy"}}};
  job = JobOf(TwoHeads(), compile, 3, json::object());
  ASSERT_TRUE(job.ok()) << job.status();
  programs = BuildPrograms(*job, Columns({X(), Classes(), Numbers()}));
  ASSERT_TRUE(programs.ok()) << programs.status();
  EXPECT_THAT(programs->fetch_names, ElementsAre("loss_sum", "count", "a_accuracy"));
  const auto outputs =
      RunProgram(programs->eval_step,
                 {FloatTensor({1, 0, 0, 1}, {2, 2}), Tensor::FromVector<uint8_t>({0, 1}, {2}),
                  FloatTensor({1, 5}, {2, 1})},
                 {{"a/kernel", FloatTensor({1, 0, 0, 2, 0, 0}, {2, 3})},
                  {"a/bias", FloatTensor({0, 0, 0}, {3})},
                  {"b/kernel", FloatTensor({2, 2}, {2, 1})},
                  {"b/bias", FloatTensor({0}, {1})}});
  ASSERT_TRUE(outputs.ok()) << outputs.status();
  EXPECT_FLOAT_EQ(*outputs->at(0).data<float>(), 1 + 9);
  EXPECT_THAT(outputs->at(2).span<double>(), ElementsAre(1, 2));
}

TEST(SeveralOutputs, TheOnlyOneMayBeNamedToo) {
  const json model = json::parse(R"({"class_name": "Sequential", "config": {"layers": [
      {"class_name": "Dense", "config": {"name": "out", "units": 1, "input_shape": [2]}}]}})");
  for (const json& loss : {json("mse"), json{{"out", "mse"}}}) {
    const auto job = JobOf(model, {{"loss", loss}, {"metrics", {"mae"}}}, 3,
                           {{"labels", {{"out", 2}}}, {"sample_weight", {{"out", 1}}}});
    ASSERT_TRUE(job.ok()) << job.status();
    const auto programs = BuildPrograms(*job, Columns({X(), Numbers(), Numbers()}));
    ASSERT_TRUE(programs.ok()) << programs.status();
    EXPECT_THAT(programs->fetch_names, ElementsAre("loss_sum", "count", "mae"));
    EXPECT_EQ(ComponentOf(programs->train_step, "y"), 2u);
    EXPECT_EQ(ComponentOf(programs->train_step, "sample_weight"), 1u);
  }
}

// An autoencoder beside a classifier: labels may be what the model reads. Two outputs may read the
// same labels, which are checked once.
TEST(SeveralOutputs, MayShareLabelsAndReadTheInputs) {
  json model = TwoHeads();
  model["config"]["layers"][2]["config"]["units"] = 2;
  auto job = JobOf(model, TwoLosses(), 2, {{"labels", {{"a", 1}, {"b", 0}}}});
  ASSERT_TRUE(job.ok()) << job.status();
  auto programs = BuildPrograms(*job, Columns({X(), Classes()}));
  ASSERT_TRUE(programs.ok()) << programs.status();
  EXPECT_EQ(ComponentOf(programs->train_step, "y:b"), 0u);
  job = JobOf(model, {{"loss", "sparse_categorical_crossentropy"}}, 2, {{"labels", 1}});
  ASSERT_TRUE(job.ok()) << job.status();
  programs = BuildPrograms(*job, Columns({X(), Classes()}));
  ASSERT_TRUE(programs.ok()) << programs.status();
  ASSERT_EQ(programs->labels.size(), 1u);
  EXPECT_EQ(programs->labels[0].class_labels().classes(), 2) << "of the output with fewer classes";
}

TEST(SeveralOutputs, LabelsThatDoNotFitNameTheirOutput) {
  const auto message = [](const json& compile, const json& data,
                          const std::vector<proto::ComponentSpec>& columns) {
    const auto job = JobOf(TwoHeads(), compile, columns.size(), data);
    EXPECT_TRUE(job.ok()) << job.status();
    if (!job.ok()) return std::string();
    return std::string(BuildPrograms(*job, Columns(columns)).status().message());
  };
  EXPECT_THAT(message(TwoLosses(), json::object(), {X(), X(), Numbers()}),
              HasSubstr("compile.loss 'sparse_categorical_crossentropy' of output 'a' needs one"));
  EXPECT_THAT(message(TwoLosses(), json::object(), {X(), Classes()}),
              HasSubstr("the model has 1 inputs, and the data 2 components"));
  EXPECT_THAT(message(TwoLosses(), {{"sample_weight", {{"b", 0}}}}, {X(), Classes(), Numbers()}),
              HasSubstr("data.sample_weight is component 0, which does not have one number"));
  json compile = TwoLosses();
  compile["metrics"] = {{"b", {"sparse_categorical_accuracy"}}};
  EXPECT_THAT(message(compile, json::object(), {X(), Classes(), Numbers()}),
              HasSubstr("'sparse_categorical_accuracy' of output 'b' does not fit"));
}

}  // namespace
}  // namespace cohort
