#include "tests/bench/compute_models.h"

#include <functional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/base/posix_file_system.h"
#include "common/base/rng.h"
#include "common/base/status.h"
#include "nlohmann/json.hpp"

namespace cohort::bench {

namespace {

using nlohmann::json;

constexpr int kCharacters = 128;  // the vocabulary of the models of text
constexpr int kTokens = 128;      // of a sequence of the transformer
constexpr int kWidth = 256, kHeads = 8, kFeedForward = 1024;

// A functional model in Keras's JSON, layer by layer. Every call returns the name of a tensor.
// Thread-compatible.
class FunctionalModel {
 public:
  std::string Input(const json& batch_shape, const char* dtype) {
    return AddLayer("InputLayer", {{"batch_shape", batch_shape}, {"dtype", dtype}}, json::array());
  }
  std::string Add(const char* class_name, json config, const std::vector<std::string>& inputs) {
    json tensors = json::array();
    for (const std::string& input : inputs) {
      tensors.push_back(json::array({input, 0, 0, json::object()}));
    }
    return AddLayer(class_name, std::move(config), json::array({tensors}));
  }
  // Adds attention of a sequence over itself.
  std::string AddAttention(json config, const std::string& input) {
    const json value = {{"value", json::array({input, 0, 0})}};
    const json call = json::array({json::array({input, 0, 0, value})});
    return AddLayer("MultiHeadAttention", std::move(config), json::array({call}));
  }
  json Finish(const std::string& input, const std::string& output) const {
    return {{"class_name", "Functional"},
            {"config",
             {{"name", "model"},
              {"layers", layers_},
              {"input_layers", json::array({json::array({input, 0, 0})})},
              {"output_layers", json::array({json::array({output, 0, 0})})}}}};
  }

 private:
  std::string AddLayer(const char* class_name, json config, const json& inbound_nodes) {
    std::string name = absl::StrCat("layer_", layers_.size());
    config["name"] = name;
    layers_.push_back({{"class_name", class_name},
                       {"name", name},
                       {"config", std::move(config)},
                       {"inbound_nodes", inbound_nodes}});
    return name;
  }

  json layers_ = json::array();
};

std::string AddConvolution(FunctionalModel& model, const std::string& x, int filters, int size,
                           int strides) {
  const std::string y = model.Add("Conv2D",
                                  {{"filters", filters},
                                   {"kernel_size", size},
                                   {"strides", strides},
                                   {"padding", "same"},
                                   {"use_bias", false}},
                                  {x});
  return model.Add("BatchNormalization", json::object(), {y});
}

std::string AddRelu(FunctionalModel& model, const std::string& x) {
  return model.Add("Activation", {{"activation", "relu"}}, {x});
}

std::string AddBlock(FunctionalModel& model, const std::string& x, int filters, int strides,
                     bool projects) {
  const std::string first = AddRelu(model, AddConvolution(model, x, filters, 3, strides));
  const std::string second = AddConvolution(model, first, filters, 3, 1);
  const std::string shortcut = projects ? AddConvolution(model, x, filters, 1, strides) : x;
  return AddRelu(model, model.Add("Add", json::object(), {second, shortcut}));
}

// He et al., "Deep residual learning for image recognition", 4.2: three stages of three blocks.
json ResNet20() {
  FunctionalModel model;
  const std::string input = model.Input(json::array({nullptr, 32, 32, 3}), "float32");
  std::string x = AddRelu(model, AddConvolution(model, input, 16, 3, 1));
  for (int stage = 0; stage < 3; ++stage) {
    for (int block = 0; block < 3; ++block) {
      const bool begins = stage > 0 && block == 0;
      x = AddBlock(model, x, 16 << stage, begins ? 2 : 1, begins);
    }
  }
  x = model.Add("GlobalAveragePooling2D", json::object(), {x});
  x = model.Add("Dense", {{"units", 10}, {"activation", "softmax"}}, {x});
  return model.Finish(input, x);
}

std::string AddNormalizedSum(FunctionalModel& model, const std::string& a, const std::string& b) {
  return model.Add("LayerNormalization", json::object(),
                   {model.Add("Add", json::object(), {a, b})});
}

// Four encoder layers of Vaswani et al., "Attention is all you need", without dropout, and the
// probabilities of a class for each token.
json Transformer() {
  FunctionalModel model;
  const std::string input = model.Input(json::array({nullptr, kTokens}), "int32");
  std::string x =
      model.Add("Embedding", {{"input_dim", kCharacters}, {"output_dim", kWidth}}, {input});
  for (int layer = 0; layer < 4; ++layer) {
    x = AddNormalizedSum(
        model, x, model.AddAttention({{"num_heads", kHeads}, {"key_dim", kWidth / kHeads}}, x));
    std::string y = model.Add("Dense", {{"units", kFeedForward}, {"activation", "relu"}}, {x});
    y = model.Add("Dense", {{"units", kWidth}}, {y});
    x = AddNormalizedSum(model, x, y);
  }
  x = model.Add("Dense", {{"units", kCharacters}, {"activation", "softmax"}}, {x});
  return model.Finish(input, x);
}

json TextClassifier() {
  FunctionalModel model;
  const std::string input = model.Input(json::array({nullptr, 100}), "int32");
  std::string x = model.Add("Embedding", {{"input_dim", kCharacters}, {"output_dim", 64}}, {input});
  x = model.Add("LSTM", {{"units", 128}}, {x});
  x = model.Add("Dense", {{"units", 8}, {"activation", "softmax"}}, {x});
  return model.Finish(input, x);
}

std::string JobText(const std::string& name, const json& model, const json& optimizer, int batch) {
  const json files = {{"class_name", "IDX"}, {"config", {{"paths", {"x", "y"}}}}};
  const json job = {
      {"name", name},
      {"seed", 1},
      {"model", model},
      {"compile", {{"optimizer", optimizer}, {"loss", "sparse_categorical_crossentropy"}}},
      {"data", {{"train", files}}},
      {"fit", {{"batch_size", batch}}}};
  return job.dump();
}

json Optimizer(const char* class_name, json config) {
  return {{"class_name", class_name}, {"config", std::move(config)}};
}

absl::StatusOr<std::string> DeployedJob(const std::string& name) {
  PosixFileSystem files;
  return ReadFile(files, absl::StrCat("deploy/jobs/", name, ".json"));
}

struct Column {
  DType dtype;
  std::vector<int64_t> dims;  // of one example
  std::string name = "";
};

std::vector<Column> ClickColumns() {
  std::vector<Column> columns = {{DType::kFloat32, {13}, "dense"}};
  for (int i = 1; i <= 26; ++i) columns.push_back({DType::kInt32, {}, absl::StrCat("C", i)});
  columns.push_back({DType::kInt64, {}, "label"});
  return columns;
}

// One model before its job is parsed.
struct Entry {
  const char* name;
  std::function<absl::StatusOr<std::string>()> job;
  std::vector<Column> columns;  // the last one has the labels
  int classes;
  int ids;
  int repeats;
};

std::vector<Entry> Entries() {
  const auto deployed = [](const char* name) { return [name] { return DeployedJob(name); }; };
  const json adam = Optimizer("Adam", {{"learning_rate", 0.001}});
  const auto resnet = [] {
    return JobText("resnet20", ResNet20(),
                   Optimizer("SGD", {{"learning_rate", 0.1}, {"momentum", 0.9}}), 128);
  };
  const auto transformer = [adam] { return JobText("transformer", Transformer(), adam, 16); };
  const auto lstm = [adam] { return JobText("lstm", TextClassifier(), adam, 32); };
  return {{"mnist_mlp",
           deployed("mnist_mlp"),
           {{DType::kFloat32, {784}}, {DType::kFloat32, {10}}},
           10,
           0,
           200},
          {"mnist_cnn",
           deployed("mnist_cnn"),
           {{DType::kFloat32, {28, 28}}, {DType::kInt64, {}}},
           10,
           0,
           50},
          {"resnet20", resnet, {{DType::kFloat32, {32, 32, 3}}, {DType::kInt64, {}}}, 10, 0, 5},
          {"transformer",
           transformer,
           {{DType::kInt32, {kTokens}}, {DType::kInt64, {kTokens}}},
           kCharacters,
           kCharacters,
           5},
          {"lstm", lstm, {{DType::kInt32, {100}}, {DType::kInt64, {}}}, 8, kCharacters, 30},
          {"wide_and_deep", deployed("wide_and_deep"), ClickColumns(), 2, 1000, 200}};
}

proto::ElementSpec ElementOf(const std::vector<Column>& columns) {
  proto::ElementSpec element;
  for (const Column& column : columns) {
    proto::ComponentSpec& component = *element.add_components();
    component.set_dtype(static_cast<int32_t>(column.dtype));
    component.add_dims(-1);
    for (const int64_t dim : column.dims) component.add_dims(dim);
    component.set_name(column.name);
  }
  return element;
}

template <typename T>
void FillNumbers(const RandomStream& stream, int bound, Tensor& tensor) {
  for (int64_t i = 0; i < tensor.num_elements(); ++i) {
    tensor.mutable_data<T>()[i] =
        static_cast<T>(stream.Below(static_cast<uint64_t>(i), static_cast<uint64_t>(bound)));
  }
}

void FillFloats(const RandomStream& stream, Tensor& tensor) {
  for (int64_t i = 0; i < tensor.num_elements(); ++i) {
    tensor.mutable_data<float>()[i] = stream.Uniform(static_cast<uint64_t>(i));
  }
}

void FillOneHot(const RandomStream& stream, int classes, Tensor& tensor) {
  for (int64_t row = 0; row < tensor.shape().dim(0); ++row) {
    const uint64_t label = stream.Below(static_cast<uint64_t>(row), static_cast<uint64_t>(classes));
    tensor.mutable_data<float>()[static_cast<uint64_t>(row * classes) + label] = 1;
  }
}

Tensor MakeComponent(const ComputeModel& model, int number) {
  const proto::ComponentSpec& component = model.batch.components(number);
  std::vector<int64_t> dims(component.dims().begin(), component.dims().end());
  dims[0] = model.job.fit.batch_size;
  Tensor tensor = Tensor::Zeros(static_cast<DType>(component.dtype()), Shape(dims));
  const RandomStream stream(model.job.seed, absl::StrCat("component ", number));
  const bool is_label = number + 1 == model.batch.components_size();
  const int bound = is_label ? model.classes : model.ids;
  if (tensor.dtype() == DType::kInt32) FillNumbers<int32_t>(stream, bound, tensor);
  if (tensor.dtype() == DType::kInt64) FillNumbers<int64_t>(stream, bound, tensor);
  if (tensor.dtype() == DType::kFloat32 && is_label) FillOneHot(stream, bound, tensor);
  if (tensor.dtype() == DType::kFloat32 && !is_label) FillFloats(stream, tensor);
  return tensor;
}

}  // namespace

std::vector<std::string> ComputeModelNames() {
  std::vector<std::string> names;
  for (const Entry& entry : Entries()) names.push_back(entry.name);
  return names;
}

absl::StatusOr<ComputeModel> FindComputeModel(const std::string& name, int batch) {
  for (const Entry& entry : Entries()) {
    if (name != entry.name) continue;
    ASSIGN_OR_RETURN(const std::string text, entry.job());
    ComputeModel model = {name,          {},        ElementOf(entry.columns),
                          entry.classes, entry.ids, entry.repeats};
    const std::vector<std::string> overrides = {"compile.metrics=[]"};
    ASSIGN_OR_RETURN(model.job, ParseJob(text, name, overrides));
    if (batch > 0) model.job.fit.batch_size = batch;
    return model;
  }
  return absl::NotFoundError(absl::StrCat("unknown model '", name, "'; use one of ",
                                          absl::StrJoin(ComputeModelNames(), ", ")));
}

std::vector<NamedTensor> MakeBatch(const ComputeModel& model) {
  std::vector<NamedTensor> batch;
  for (int i = 0; i < model.batch.components_size(); ++i) {
    const std::string& name = model.batch.components(i).name();
    const char* const position = i == 0 ? "x" : "y";
    batch.push_back({name.empty() ? position : name, MakeComponent(model, i)});
  }
  return batch;
}

}  // namespace cohort::bench
