// How embeddings and named columns are bound, what a model refuses, and that an exported one is an
// ordinary ONNX model with the whole tables inside.

#include <map>

#include "absl/strings/str_cat.h"
#include "common/program/program.h"
#include "common/tensor/slice_spec.h"
#include "coordinator/model/model_programs.h"
#include "coordinator/model/onnx_export.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/unit/coordinator/model/model_test_support.h"

namespace cohort {
namespace {

using nlohmann::json;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

json Layer(const std::string& class_name, const std::string& name, json config,
           const std::vector<std::vector<std::string>>& given) {
  json nodes = json::array();
  for (const std::vector<std::string>& use : given) {
    json tensors = json::array();
    for (const std::string& from : use) tensors.push_back(json::array({from, 0, 0}));
    nodes.push_back(tensors);
  }
  config["name"] = name;
  return {{"class_name", class_name}, {"config", config}, {"inbound_nodes", nodes}};
}

json Input(const std::string& name, const json& shape, const char* dtype) {
  return Layer("InputLayer", name, {{"batch_shape", shape}, {"dtype", dtype}}, {});
}

// numbers [3], a scalar id that two tables share, and bags of 4 ids.
json ClickModel() {
  const std::vector<json> layers = {
      Input("numbers", json::array({nullptr, 3}), "float32"),
      Input("id", json::array({nullptr}), "int64"),
      Input("bag", json::array({nullptr, 4}), "int32"),
      Layer("Embedding", "deep", {{"input_dim", 9}, {"output_dim", 2}}, {{"id"}}),
      Layer("Embedding", "wide", {{"input_dim", 9}, {"output_dim", 1}}, {{"id"}}),
      Layer("EmbeddingBag", "words", {{"input_dim", 7}, {"output_dim", 2}}, {{"bag"}}),
      Layer("Concatenate", "all", json::object(), {{"numbers", "deep", "wide", "words"}}),
      Layer("Dense", "out", {{"units", 2}, {"activation", "softmax"}}, {{"all"}})};
  const std::vector<json> inputs = {json::array({"numbers", 0, 0}), json::array({"id", 0, 0}),
                                    json::array({"bag", 0, 0})};
  return {{"class_name", "Functional"},
          {"config",
           {{"layers", layers},
            {"input_layers", inputs},
            {"output_layers", json::array({"out", 0, 0})}}}};
}

proto::ComponentSpec Column(const std::string& name, DType dtype,
                            const std::vector<int64_t>& dims) {
  proto::ComponentSpec column = Component(dtype, dims);
  column.set_name(name);
  return column;
}

// Not in the order of the model's inputs.
proto::ElementSpec ClickBatch() {
  proto::ElementSpec batch;
  *batch.add_components() = Column("bag", DType::kInt32, {-1, 4});
  *batch.add_components() = Column("label", DType::kInt32, {-1});
  *batch.add_components() = Column("id", DType::kInt64, {-1});
  *batch.add_components() = Column("numbers", DType::kFloat32, {-1, 3});
  return batch;
}

absl::StatusOr<ModelPrograms> Build(const json& model, const proto::ElementSpec& batch) {
  const auto job = MakeJob(model, "sgd", "sparse_categorical_crossentropy", json::array());
  EXPECT_TRUE(job.ok()) << job.status();
  return BuildPrograms(*job, batch);
}

std::vector<std::string> Inputs(const proto::Program& program) {
  std::vector<std::string> inputs;
  for (const proto::InputBinding& input : program.inputs()) {
    std::string text = input.has_variable() ? "variable" : absl::StrCat(input.batch_component());
    if (!input.rows_of().empty()) absl::StrAppend(&text, " rows of ", input.rows_of());
    if (input.negative_is_none()) absl::StrAppend(&text, " or none");
    inputs.push_back(absl::StrCat(input.input(), "=", text));
  }
  return inputs;
}

TEST(EmbeddingPrograms, StepsReadRowsAndPredictionsWholeTables) {
  const auto programs = Build(ClickModel(), ClickBatch());
  ASSERT_TRUE(programs.ok()) << programs.status();
  const auto step =
      ElementsAre("numbers=3", "deep/embeddings:id=2 rows of deep/embeddings",
                  "wide/embeddings:id=2 rows of wide/embeddings",
                  "words/embeddings:bag=0 rows of words/embeddings or none", "y=1",
                  "deep/embeddings=variable", "wide/embeddings=variable",
                  "words/embeddings=variable", "out/kernel=variable", "out/bias=variable");
  EXPECT_THAT(Inputs(programs->train_step), step);
  EXPECT_THAT(Inputs(programs->eval_step), step);
  EXPECT_THAT(Inputs(programs->predict),
              ElementsAre("numbers=3", "id=2", "bag=0", "deep/embeddings=variable",
                          "wide/embeddings=variable", "words/embeddings=variable",
                          "out/kernel=variable", "out/bias=variable"));
  // The gradient of a table has as many rows as were pulled, not as the batch or the table.
  const auto model = LoadProgram(programs->train_step);
  ASSERT_TRUE(model.ok()) << model.status();
  const onnx::GraphProto& graph = model->graph();
  const auto& gradient = graph.output(2).type().tensor_type().shape();
  EXPECT_EQ(gradient.dim(0).dim_param(), "deep/embeddings:rows");
  EXPECT_EQ(gradient.dim(1).dim_value(), 2);
}

TEST(EmbeddingPrograms, AnExportedModelHasTheTablesAndItsColumnsByName) {
  const auto programs = Build(ClickModel(), ClickBatch());
  ASSERT_TRUE(programs.ok()) << programs.status();
  std::map<std::string, Tensor> values;
  for (const VariableSpec& variable : programs->variables) {
    Tensor& value = values[variable.name] = Tensor(DType::kFloat32, variable.shape);
    for (int64_t i = 0; i < value.num_elements(); ++i) {
      value.mutable_data<float>()[i] = static_cast<float>(i % 5) * 0.25f - 0.5f;
    }
  }
  const auto exported = Exported(programs->predict, values);
  ASSERT_TRUE(exported.ok()) << exported.status();
  ASSERT_EQ(exported->graph().input_size(), 3);
  EXPECT_EQ(exported->graph().input(1).name(), "id");
  EXPECT_EQ(exported->graph().input(1).type().tensor_type().shape().dim(0).dim_param(), "N");
  EXPECT_EQ(exported->opset_import_size(), 1);
  const std::vector<Tensor> columns = {
      Tensor::FromVector<float>({1, 2, 3, 4, 5, 6}, {2, 3}),
      Tensor::FromVector<int64_t>({8, 0}, {2}),
      Tensor::FromVector<int32_t>({6, -1, 6, 0, -1, -1, -1, -1}, {2, 4})};
  const auto alone = RunGraph(*exported, columns);
  ASSERT_TRUE(alone.ok()) << alone.status();
  const auto bound = RunProgram(
      programs->predict,
      {columns[2], Tensor::FromVector<int32_t>({0, 0}, {2}), columns[1], columns[0]}, values);
  ASSERT_TRUE(bound.ok()) << bound.status();
  EXPECT_EQ(LargestError(alone->at(0), bound->at(0)), 0);
}

TEST(EmbeddingPrograms, WithoutNamesInputsTakeComponentsInOrder) {
  proto::ElementSpec batch = ClickBatch();
  batch.mutable_components()->SwapElements(0, 3);  // numbers, label, id, bag
  batch.mutable_components()->SwapElements(1, 2);
  batch.mutable_components()->SwapElements(2, 3);  // numbers, id, bag, label
  for (proto::ComponentSpec& component : *batch.mutable_components()) component.clear_name();
  const auto programs = Build(ClickModel(), batch);
  ASSERT_TRUE(programs.ok()) << programs.status();
  EXPECT_THAT(Inputs(programs->predict)[2], "bag=2");
  EXPECT_THAT(Inputs(programs->train_step)[4], "y=3");
  batch.mutable_components()->RemoveLast();
  EXPECT_THAT(std::string(Build(ClickModel(), batch).status().message()),
              HasSubstr("the model has 3 inputs, and the data 3 components"));
}

TEST(EmbeddingPrograms, ErrorsNameTheLayerOrTheColumn) {
  const auto message = [](const json& model, const proto::ElementSpec& batch) {
    return std::string(Build(model, batch).status().message());
  };
  proto::ElementSpec batch = ClickBatch();
  batch.mutable_components(2)->set_name("ident");
  EXPECT_THAT(message(ClickModel(), batch),
              HasSubstr("reads 'id', but the data has no such column; it has bag, label, ident"));
  batch = ClickBatch();
  batch.mutable_components(2)->set_dtype(static_cast<int32_t>(DType::kFloat32));
  EXPECT_THAT(message(ClickModel(), batch),
              HasSubstr("layer 'deep' looks up 'id', which is float32"));
  json model = ClickModel();
  model["config"]["layers"][4]["inbound_nodes"][0][0][0] = "deep";
  EXPECT_THAT(message(model, ClickBatch()),
              HasSubstr("layer 'wide' looks up what layer 'deep' gives"));
  model = ClickModel();
  model["config"]["layers"][5]["inbound_nodes"][0][0][0] = "id";
  model["config"]["input_layers"].erase(2);
  model["config"]["layers"].erase(2);
  EXPECT_THAT(message(model, ClickBatch()),
              HasSubstr("layer 'words' is given examples of shape []"));
  model = ClickModel();
  model["config"]["layers"][6]["config"]["axis"] = 0;
  EXPECT_THAT(message(model, ClickBatch()), HasSubstr("its axis 0 is not one of their dimensions"));
  model = ClickModel();
  model["config"]["layers"][0]["config"]["batch_shape"] = json::array({nullptr, 4});
  EXPECT_THAT(message(model, ClickBatch()), HasSubstr("'numbers' is given examples of shape [3]"));
}

// Instead of a number of rows for the table 'deep'.
json DynamicModel() {
  json model = ClickModel();
  json& config = model["config"]["layers"][3]["config"];
  config.erase("input_dim");
  config["dynamic"] = {{"ttl_seconds", 0.0625}, {"admit_after", 2}, {"evict", "lfu"}};
  return model;
}

TEST(EmbeddingPrograms, ADynamicTableIsReadByRowsEverywhere) {
  const auto programs = Build(DynamicModel(), ClickBatch());
  ASSERT_TRUE(programs.ok()) << programs.status();
  const auto fixed = Build(ClickModel(), ClickBatch());
  EXPECT_EQ(Inputs(programs->train_step), Inputs(fixed->train_step)) << "the same bindings";
  const std::vector<std::string> predict = Inputs(programs->predict);
  EXPECT_THAT(predict, ::testing::Contains("deep/embeddings:id=2 rows of deep/embeddings"));
  EXPECT_THAT(predict, ::testing::Contains("id=2")) << "of the table with a number of rows";
  const VariableSpec& table = programs->variables[0];
  EXPECT_EQ(table.name, "deep/embeddings");
  EXPECT_EQ(table.shape, (Shape{kKeyBuckets, 2}));
  ASSERT_TRUE(table.dynamic.has_value());
  EXPECT_EQ(table.dynamic->ttl_ms(), 63) << "rounded up";
  EXPECT_EQ(table.dynamic->admit_after(), 2u);
  EXPECT_TRUE(table.dynamic->evict_least_frequent());
  EXPECT_EQ(table.dynamic->row_dtype(), static_cast<int32_t>(DType::kFloat32));
  EXPECT_FALSE(programs->variables[1].dynamic.has_value());
}

TEST(EmbeddingPrograms, ADynamicTableNeedsUpdatesOfItsRowsAlone) {
  const auto build = [](const json& optimizer) {
    const auto job =
        MakeJob(DynamicModel(), optimizer, "sparse_categorical_crossentropy", json::array());
    EXPECT_TRUE(job.ok()) << job.status();
    return BuildPrograms(*job, ClickBatch()).status();
  };
  EXPECT_THAT(std::string(build("adam").message()),
              ::testing::AllOf(HasSubstr("'deep/embeddings' is a dynamic table"),
                               HasSubstr("lazy_compensated")));
  EXPECT_TRUE(build({{"class_name", "Adam"},
                     {"config", {{"sparse_updates", {{"deep/embeddings", "lazy"}}}}}})
                  .ok());
  EXPECT_TRUE(build("adagrad").ok()) << "zeros do nothing to its other rows";
}

}  // namespace
}  // namespace cohort
