#include "coordinator/model/model.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/base/status.h"
#include "coordinator/model/layer_shapes.h"

namespace cohort {
namespace {

constexpr int64_t kElementsMax = int64_t{1} << 31;  // upper bound of the elements of one example
constexpr char kLabelColumn[] = "label";

// Checks that a column has a batch and known dimensions of bounded size.
absl::Status CheckColumn(const std::string& name, const proto::ComponentSpec& x) {
  RETURN_IF_ERROR(DTypeFromNumber(x.dtype()).status());
  if (x.dims_size() < 1) {
    return absl::InvalidArgumentError(
        absl::StrCat(name, " has no batch dimension; batch the data set"));
  }
  int64_t elements = 1;
  for (int i = 1; i < x.dims_size(); ++i) {
    if (x.dims(i) < 1 || elements > kElementsMax / x.dims(i)) {
      return absl::InvalidArgumentError(absl::StrCat(
          name, " has ", x.dims(i), " in dimension ", i,
          "; every dimension but the batch must be known, with fewer than 2^31 elements in all"));
    }
    elements *= x.dims(i);
  }
  return absl::OkStatus();
}

// Returns the dimensions of a component with a symbolic batch, written as -1.
std::vector<int64_t> SymbolicDims(const proto::ComponentSpec& component) {
  std::vector<int64_t> dims(component.dims().begin(), component.dims().end());
  dims[0] = -1;
  return dims;
}

bool IsInteger(DType dtype) {
  return dtype == DType::kUint8 || dtype == DType::kInt8 || dtype == DType::kInt32 ||
         dtype == DType::kInt64 || dtype == DType::kBool;
}

// Checks the type that an InputLayer declares. Keras casts the data to this type. Here nothing is
// cast, so the cast must not change any value: the declared type may be float32, in which layers
// compute, float64, or a wider integer type.
absl::Status CheckDeclaredType(const InputLayerSpec& layer, DType data) {
  if (layer.dtype == data || layer.dtype == DType::kFloat32 || layer.dtype == DType::kFloat64) {
    return absl::OkStatus();
  }
  const bool wider =
      IsInteger(layer.dtype) && IsInteger(data) && ElementSize(layer.dtype) > ElementSize(data);
  if (wider) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("layer '", layer.name, "' declares ", DTypeName(layer.dtype),
                   ", and the data is ", DTypeName(data), ", which is not cast; declare ",
                   DTypeName(data), data == DType::kFloat32 ? "" : " or float32"));
}

// Returns whether the data are images without a channel where the model declares one channel.
bool LacksChannels(const Shape& declared, const Shape& actual) {
  return declared.rank() == 3 && declared.dim(2) == 1 && actual.rank() == 2 &&
         declared.dim(0) == actual.dim(0) && declared.dim(1) == actual.dim(1);
}

// Returns the name of the graph input with the ids of a column in the looked-up rows of a table.
std::string LookupName(const std::string& table, const std::string& column) {
  return absl::StrCat(table, ":", column);
}

// Reshapes a value to the declared shape. Keras gives a layer [N,1] if the data have one number per
// example.
std::string ToShape(const std::string& value, const Shape& from, const Shape& to,
                    GraphBuilder& graph) {
  if (from == to) return value;
  std::vector<int64_t> dims{-1};
  dims.insert(dims.end(), to.dims().begin(), to.dims().end());
  const auto rank = static_cast<int64_t>(dims.size());
  return graph.Op(
      "Reshape",
      {value, graph.Constant("shape", Tensor::FromVector<int64_t>(std::move(dims), {rank}))});
}

}  // namespace

absl::StatusOr<Model> Model::Create(const ModelSpec& spec, uint64_t seed,
                                    const proto::ElementSpec& batch) {
  Model model;
  model.batch_ = batch;
  model.TakeLayers(spec);
  RETURN_IF_ERROR(model.TakeColumns(spec, batch));
  for (size_t i = 0; i < model.calls_.size(); ++i) {
    RETURN_IF_ERROR(model.TakeCall(model.calls_[i], seed));
  }
  // Declared types are checked after the layers, because a layer's error about its ids says more
  // than an error about the declared type.
  for (const size_t input : model.inputs_) {
    const Call& call = model.calls_[input];
    RETURN_IF_ERROR(CheckDeclaredType(std::get<InputLayerSpec>(model.layers_[call.layer]),
                                      model.columns_[static_cast<size_t>(call.column)].dtype));
  }
  // If the model returns one of its inputs unchanged, the graph needs the values of that column.
  if (model.calls_[model.output_].column >= 0) {
    model.columns_[static_cast<size_t>(model.calls_[model.output_].column)].is_value = true;
  }
  // Variables are ordered by their layers in the model, not by the order of the layers' calls.
  std::vector<size_t> order(model.variables_.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    return model.variable_layers_[a] < model.variable_layers_[b];
  });
  std::vector<VariableSpec> variables;
  for (const size_t i : order) variables.push_back(std::move(model.variables_[i]));
  model.variables_ = std::move(variables);
  return model;
}

void Model::TakeLayers(const ModelSpec& spec) {
  layers_ = spec.layers;
  if (spec.functional()) {
    for (const LayerCall& call : spec.calls) {
      Call& taken = calls_.emplace_back();
      taken.layer = call.layer;
      taken.inputs = call.inputs;
      taken.training = call.training;
    }
    inputs_ = spec.inputs;
    output_ = spec.output;
  } else {
    if (layers_.empty() || !std::holds_alternative<InputLayerSpec>(layers_[0])) {
      // An InputLayer that takes the shape of the data.
      layers_.insert(layers_.begin(), InputLayerSpec());
    }
    // In a Sequential model each layer is used once, with the output of the layer before it.
    for (size_t i = 0; i < layers_.size(); ++i) {
      Call& taken = calls_.emplace_back();
      taken.layer = i;
      if (i > 0) taken.inputs = {i - 1};
    }
    inputs_ = {0};
    output_ = layers_.size() - 1;
  }
  for (size_t i = 0; i < inputs_.size(); ++i) calls_[inputs_[i]].column = static_cast<int>(i);
}

absl::Status Model::TakeColumns(const ModelSpec& spec, const proto::ElementSpec& batch) {
  for (size_t i = 0; i < inputs_.size(); ++i) {
    const std::string& name = LayerName(layers_[calls_[inputs_[i]].layer]);
    Column column;
    column.name = spec.functional() ? name : "x";
    // A model with an input "y" needs another name for its labels.
    if (column.name == labels_name_) labels_name_ = "labels";
    if (spec.functional()) {
      ASSIGN_OR_RETURN(column.component, FindComponent(name, i, batch));
    }
    const proto::ComponentSpec& component = batch.components(static_cast<int>(column.component));
    RETURN_IF_ERROR(CheckColumn(column.name, component));
    column.dtype = static_cast<DType>(component.dtype());
    column.shape = Shape(
        absl::MakeConstSpan(component.dims().data(), static_cast<size_t>(component.dims_size()))
            .subspan(1));
    // A model without an InputLayer takes the shape of the data.
    if (!spec.functional() && !std::holds_alternative<InputLayerSpec>(spec.layers.front())) {
      std::get<InputLayerSpec>(layers_[0])
          .shape.assign(column.shape.dims().begin(), column.shape.dims().end());
    }
    columns_.push_back(std::move(column));
  }
  ASSIGN_OR_RETURN(labels_, FindComponent(kLabelColumn, inputs_.size(), batch));
  return absl::OkStatus();
}

absl::StatusOr<uint32_t> Model::FindComponent(const std::string& name, size_t position,
                                              const proto::ElementSpec& batch) const {
  std::vector<std::string> known;
  for (int i = 0; i < batch.components_size(); ++i) {
    known.push_back(batch.components(i).name());
    if (known.back() == name) return static_cast<uint32_t>(i);
  }
  // Data with named columns are never read by position.
  if (!known.empty() && !known[0].empty()) {
    return absl::InvalidArgumentError(absl::StrCat("the model reads '", name,
                                                   "', but the data has no such column; it has ",
                                                   absl::StrJoin(known, ", ")));
  }
  if (position < known.size()) return static_cast<uint32_t>(position);
  return absl::InvalidArgumentError(
      absl::StrCat("the model has ", inputs_.size(), " inputs, and the data ", known.size(),
                   " components; it must have one for each input and then the labels"));
}

absl::Status Model::TakeInput(const InputLayerSpec& layer, Call& call) {
  const Shape declared(layer.shape);
  const Shape& actual = columns_[static_cast<size_t>(call.column)].shape;
  call.shape = declared;
  // [N] may be declared as [N,1], because ToShape adds the dimension.
  if (declared == actual || (actual.rank() == 0 && declared == Shape({1}))) {
    return absl::OkStatus();
  }
  const std::string remedy =
      LacksChannels(declared, actual)
          ? absl::StrCat("declare ", actual.ToString(),
                         " and put a Reshape layer with target_shape ", declared.ToString(),
                         " behind it, which gives images their channel")
          : "change input_shape, or data.pipeline (Flatten joins dimensions)";
  return absl::InvalidArgumentError(
      absl::StrCat("layer '", layer.name, "' is given examples of shape ", actual.ToString(),
                   "; the model declares ", declared.ToString(), "; ", remedy));
}

absl::Status Model::TakeCall(Call& call, uint64_t seed) {
  const LayerSpec& layer = layers_[call.layer];
  if (const auto* input = std::get_if<InputLayerSpec>(&layer)) return TakeInput(*input, call);
  // Embeddings only look up ids; every other layer computes with the values of its columns.
  if (!TableOf(layer).empty()) {
    RETURN_IF_ERROR(TakeLookup(layer, call));
  } else {
    for (const size_t input : call.inputs) {
      if (calls_[input].column < 0) continue;
      columns_[static_cast<size_t>(calls_[input].column)].is_value = true;
    }
  }
  std::vector<Shape> shapes;
  for (const size_t input : call.inputs) shapes.push_back(calls_[input].shape);
  ASSIGN_OR_RETURN(call.shape, LayerOutputShape(layer, shapes));
  return TakeVariables(call, shapes[0], seed);
}

absl::Status Model::TakeLookup(const LayerSpec& layer, const Call& call) {
  const Call& source = calls_[call.inputs[0]];
  if (source.column < 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("layer '", LayerName(layer), "' looks up what layer '",
                     LayerName(layers_[source.layer]), "' gives; ids come from an InputLayer"));
  }
  Column& column = columns_[static_cast<size_t>(source.column)];
  if (column.dtype != DType::kInt32 && column.dtype != DType::kInt64) {
    return absl::InvalidArgumentError(
        absl::StrCat("layer '", LayerName(layer), "' looks up '", column.name, "', which is ",
                     DTypeName(column.dtype), "; ids are int32 or int64"));
  }
  // Two uses of a table with the same column share one lookup.
  const std::string table = TableOf(layer);
  const bool known = std::any_of(column.lookups.begin(), column.lookups.end(),
                                 [&](const Lookup& lookup) { return lookup.table == table; });
  if (!known) {
    column.lookups.push_back({table, std::holds_alternative<EmbeddingBagSpec>(layer)});
  }
  tables_.insert(table);
  if (DynamicTableOf(layer) != nullptr) dynamic_tables_.insert(table);
  return absl::OkStatus();
}

// Adds the variables of a layer. A layer that is used again keeps the variables of its first use.
absl::Status Model::TakeVariables(const Call& call, const Shape& input, uint64_t seed) {
  std::vector<VariableSpec> variables = LayerVariables(layers_[call.layer], input, seed);
  for (VariableSpec& variable : variables) {
    const auto known =
        std::find_if(variables_.begin(), variables_.end(),
                     [&](const VariableSpec& one) { return one.name == variable.name; });
    if (known == variables_.end()) {
      variables_.push_back(std::move(variable));
      variable_layers_.push_back(call.layer);
    } else if (known->shape != variable.shape) {
      return absl::InvalidArgumentError(absl::StrCat(
          "layer '", LayerName(layers_[call.layer]), "' is used for examples of shape ",
          input.ToString(), ", for which its ", variable.name, " would be ",
          variable.shape.ToString(), ", and before as ", known->shape.ToString()));
    }
  }
  return absl::OkStatus();
}

bool Model::IsByRows(ModelMode mode, const std::string& variable) const {
  // In predictions only dynamic tables are read by rows, since they cannot be read whole.
  return (mode == ModelMode::kPrediction ? dynamic_tables_ : tables_).contains(variable);
}

void Model::AddColumns(ModelMode mode, GraphBuilder& graph, proto::Program& program) const {
  const auto add = [&](const std::string& name, const Column& column) {
    const proto::ComponentSpec& component = batch_.components(static_cast<int>(column.component));
    graph.Input(name, column.dtype, SymbolicDims(component));
    proto::InputBinding* const binding = program.add_inputs();
    binding->set_input(name);
    binding->set_batch_component(column.component);
    return binding;
  };
  for (const Column& column : columns_) {
    // A lookup in the whole table needs the ids themselves as an input of the graph.
    const bool reads_ids =
        std::any_of(column.lookups.begin(), column.lookups.end(),
                    [&](const Lookup& lookup) { return !IsByRows(mode, lookup.table); });
    if (column.is_value || reads_ids) add(column.name, column);
    for (const Lookup& lookup : column.lookups) {
      if (!IsByRows(mode, lookup.table)) continue;
      proto::InputBinding* const binding = add(LookupName(lookup.table, column.name), column);
      binding->set_rows_of(lookup.table);
      binding->set_negative_is_none(lookup.negative_is_none);
    }
  }
}

void Model::AddLabels(const proto::ComponentSpec& labels, GraphBuilder& graph,
                      proto::Program& program) const {
  graph.Input(labels_name_, static_cast<DType>(labels.dtype()), SymbolicDims(labels));
  proto::InputBinding* const binding = program.add_inputs();
  binding->set_input(labels_name_);
  binding->set_batch_component(labels_);
}

NodeValue Model::AddSampleWeight(const proto::ComponentSpec& weights, uint32_t component,
                                 GraphBuilder& graph, proto::Program& program) const {
  std::string name = "sample_weight";
  // An input of the model may have this name.
  for (const Column& column : columns_) {
    if (column.name == name) name = "sample_weight:";
  }
  const auto dtype = static_cast<DType>(weights.dtype());
  graph.Input(name, dtype, SymbolicDims(weights));
  proto::InputBinding* const binding = program.add_inputs();
  binding->set_input(name);
  binding->set_batch_component(component);
  return {name, {weights.dims().begin(), weights.dims().end()}, dtype};
}

void Model::AddVariables(ModelMode mode, GraphBuilder& graph, proto::Program& program) const {
  for (const VariableSpec& variable : variables_) {
    std::vector<int64_t> dims(variable.shape.dims().begin(), variable.shape.dims().end());
    // The number of rows of a table that a batch names varies.
    if (IsByRows(mode, variable.name)) {
      dims[0] = -1;
      graph.Input(variable.name, variable.dtype, dims, absl::StrCat(variable.name, ":rows"));
    } else {
      graph.Input(variable.name, variable.dtype, dims);
    }
    proto::InputBinding* const binding = program.add_inputs();
    binding->set_input(variable.name);
    binding->set_variable(variable.name);
  }
}

ModelOutput Model::AddInput(const Column& column, const Call& call, GraphBuilder& graph) const {
  // A column that is only looked up has ids and no value.
  if (!column.is_value) return {};
  std::string value = column.name;
  if (column.dtype != DType::kFloat32) {
    value = graph.Op("Cast", {value}, {IntAttribute("to", static_cast<int64_t>(DType::kFloat32))});
  }
  return {ToShape(value, column.shape, call.shape, graph), ""};
}

std::string Model::AddIds(const Column& column, const Call& call, const std::string& table,
                          ModelMode mode, GraphBuilder& graph) const {
  const std::string ids = IsByRows(mode, table) ? LookupName(table, column.name) : column.name;
  return ToShape(ids, column.shape, call.shape, graph);
}

ModelOutput Model::AddLayers(ModelMode mode, GraphBuilder& graph, StateValues& state) const {
  // `calls_` has each call after the calls that give its inputs, so the inputs are known here.
  std::vector<ModelOutput> outputs(calls_.size());
  for (size_t i = 0; i < calls_.size(); ++i) {
    const Call& call = calls_[i];
    const LayerSpec& layer = layers_[call.layer];
    const std::string& name = LayerName(layer);
    graph.SetNamePrefix(name.empty() ? "input/" : name + "/");
    if (call.column >= 0) {
      outputs[i] = AddInput(columns_[static_cast<size_t>(call.column)], call, graph);
      continue;
    }
    const Call& first = calls_[call.inputs[0]];
    std::vector<ModelOutput> values;
    if (const std::string table = TableOf(layer); !table.empty()) {
      const Column& column = columns_[static_cast<size_t>(first.column)];
      values.push_back({AddIds(column, first, table, mode, graph), ""});
    } else {
      for (const size_t input : call.inputs) values.push_back(outputs[input]);
    }
    // A call with `training` false computes as in evaluation, in a training step too.
    const bool frozen = mode == ModelMode::kTraining && !call.training;
    const LayerTarget target{graph, frozen ? ModelMode::kEvaluation : mode, state};
    outputs[i] = AddLayerNodes(layer, {values, first.shape}, target);
  }
  return ChannelsLast(outputs[output_], graph);
}

}  // namespace cohort
