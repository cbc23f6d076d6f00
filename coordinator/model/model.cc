#include "coordinator/model/model.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/base/status.h"
#include "coordinator/layers/nodes.h"
#include "coordinator/layers/penalty.h"
#include "coordinator/network/calls.h"

namespace cohort {
namespace {

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

// Checks the type that an InputLayer declares. Keras would cast the data to this type. Cohort does
// not cast, so the declared type must be one to which a cast changes no value: float32, in which
// layers compute, float64, or a wider integer type.
absl::Status CheckDeclaredType(const std::string& layer, DType declared, DType data) {
  if (declared == data || declared == DType::kFloat32 || declared == DType::kFloat64) {
    return absl::OkStatus();
  }
  const bool wider =
      IsInteger(declared) && IsInteger(data) && ElementSize(declared) > ElementSize(data);
  if (wider) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("layer '", layer, "' declares ", DTypeName(declared), ", and the data is ",
                   DTypeName(data), ", which is not cast; declare ", DTypeName(data),
                   data == DType::kFloat32 ? "" : " or float32"));
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
  model.spec_ = spec;
  RETURN_IF_ERROR(model.TakeColumns(batch));
  RETURN_IF_ERROR(model.Plan(seed));
  // Declared types are checked after the layers, because the error of a layer that looks up ids
  // says more.
  for (size_t i = 0; i < model.columns_.size(); ++i) {
    const LayerSpec* const input = model.InputLayerOf(i);
    if (input == nullptr) continue;
    RETURN_IF_ERROR(CheckDeclaredType(input->name, input->input()->dtype, model.columns_[i].dtype));
  }
  return model;
}

absl::Status Model::Plan(uint64_t seed) {
  for (size_t i = 0; i < columns_.size(); ++i) {
    ASSIGN_OR_RETURN(TensorType type, TakeInput(i));
    inputs_.push_back(std::move(type));
  }
  LayerPlan plan(seed);
  const CallSettings whole = {.trainable = spec_.trainable};
  ASSIGN_OR_RETURN(outputs_, PlanCalls(spec_, whole, inputs_, plan));
  // If the model returns one of its inputs unchanged, the graph needs the values of that column.
  for (const TensorType& output : outputs_) plan.UseColumn(output.column);
  for (size_t i = 0; i < columns_.size(); ++i) {
    columns_[i].is_value = plan.UsesColumn(static_cast<int>(i));
    columns_[i].lookups = plan.LookupsOf(static_cast<int>(i));
    for (const Lookup& lookup : columns_[i].lookups) {
      if (!lookup.whole) tables_.insert(lookup.table);
      if (lookup.dynamic) dynamic_tables_.insert(lookup.table);
    }
  }
  variables_ = plan.Variables();
  regularized_ = plan.regularized();
  return absl::OkStatus();
}

const LayerSpec* Model::InputLayerOf(size_t number) const {
  if (!spec_.has_inputs()) return nullptr;
  return &spec_.layers[spec_.calls[spec_.inputs[number]].layer];
}

absl::Status Model::TakeColumns(const proto::ElementSpec& batch) {
  for (size_t i = 0; i < spec_.num_inputs(); ++i) {
    Column column;
    column.name = spec_.sequential ? "x" : InputLayerOf(i)->name;
    // The model may take a dict, whose keys name the inputs.
    if (!spec_.input_names.empty() && !spec_.sequential) column.name = spec_.input_names[i];
    // A model with an input "y" needs another name for its labels.
    if (column.name == labels_name_) labels_name_ = "labels";
    if (!spec_.sequential) {
      ASSIGN_OR_RETURN(column.component, FindComponent(column.name, i, batch));
    } else if (!spec_.input_names.empty()) {
      // The name is that of the column; in graphs the input of a Sequential model is "x".
      ASSIGN_OR_RETURN(column.component, FindComponent(spec_.input_names[i], i, batch));
    }
    const proto::ComponentSpec& component = batch.components(static_cast<int>(column.component));
    RETURN_IF_ERROR(CheckColumn(column.name, component));
    column.dtype = static_cast<DType>(component.dtype());
    column.shape = Shape(
        absl::MakeConstSpan(component.dims().data(), static_cast<size_t>(component.dims_size()))
            .subspan(1));
    columns_.push_back(std::move(column));
  }
  return absl::OkStatus();
}

std::vector<uint32_t> Model::components() const {
  std::vector<uint32_t> components;
  for (const Column& column : columns_) components.push_back(column.component);
  return components;
}

absl::StatusOr<uint32_t> Model::FindLabels(const std::string& column, size_t position) const {
  return FindComponent(column, columns_.size() + position, batch_);
}

std::string Model::LabelsName(const std::string& output) const {
  // The name cannot be that of a column, because no layer has a colon in its name.
  return output.empty() ? labels_name_ : absl::StrCat(labels_name_, ":", output);
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
      absl::StrCat("the model has ", spec_.num_inputs(), " inputs, and the data ", known.size(),
                   " components; it must have one for each input and then the labels"));
}

absl::StatusOr<TensorType> Model::TakeInput(size_t number) const {
  const Column& column = columns_[number];
  const Shape& actual = column.shape;
  TensorType type = {column.dtype, actual, static_cast<int>(number), column.name};
  const LayerSpec* const layer = InputLayerOf(number);
  // A model without a declared shape takes the shape of the data.
  if (layer == nullptr || !layer->input()->has_shape) return type;
  std::vector<int64_t> dims = layer->input()->shape;
  for (size_t i = 0; i < dims.size(); ++i) {
    const bool is_open = dims[i] < 0 && dims.size() == static_cast<size_t>(actual.rank());
    if (is_open) dims[i] = actual.dim(static_cast<int>(i));
  }
  const Shape declared(dims);
  type.shape = declared;
  // [N] may be declared as [N,1], because ToShape adds the dimension.
  if (declared == actual || (actual.rank() == 0 && declared == Shape({1}))) return type;
  const std::string remedy =
      LacksChannels(declared, actual)
          ? absl::StrCat("declare ", actual.ToString(),
                         " and put a Reshape layer with target_shape ", declared.ToString(),
                         " behind it, which gives images their channel")
          : "change input_shape, or data.pipeline (Flatten joins dimensions)";
  return absl::InvalidArgumentError(
      absl::StrCat("layer '", layer->name, "' is given examples of shape ", actual.ToString(),
                   "; the model declares ", declared.ToString(), "; ", remedy));
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

NodeValue Model::AddLabels(const std::string& output, const proto::ComponentSpec& labels,
                           uint32_t component, GraphBuilder& graph, proto::Program& program) const {
  const std::string name = LabelsName(output);
  const auto dtype = static_cast<DType>(labels.dtype());
  graph.Input(name, dtype, SymbolicDims(labels));
  proto::InputBinding* const binding = program.add_inputs();
  binding->set_input(name);
  binding->set_batch_component(component);
  return {name, {labels.dims().begin(), labels.dims().end()}, dtype};
}

NodeValue Model::AddSampleWeight(const std::string& suffix, uint32_t component, GraphBuilder& graph,
                                 proto::Program& program) const {
  const proto::ComponentSpec& weights = batch_.components(static_cast<int>(component));
  std::string name = "sample_weight";
  // If an input of the model has this name, a colon makes another one.
  for (const Column& column : columns_) {
    if (column.name == name) name = "sample_weight:";
  }
  absl::StrAppend(&name, suffix);
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

LayerValue Model::AddInput(size_t number, GraphBuilder& graph) const {
  const Column& column = columns_[number];
  LayerValue input{.value = "", .type = inputs_[number]};
  // A column that is only looked up has ids and no value.
  if (!column.is_value) return input;
  graph.SetNamePrefix(absl::StrCat(column.name, "/"));
  input.value = column.name;
  // Layers compute in float32; masks stay what they are.
  if (column.dtype != DType::kFloat32 && column.dtype != DType::kBool) {
    input.value = Nodes(graph).Cast(input.value, DType::kFloat32);
  }
  input.value = ToShape(input.value, column.shape, input.type.shape, graph);
  return input;
}

std::vector<LayerValue> Model::AddLayers(ModelMode mode, GraphBuilder& graph, StateValues& state,
                                         std::vector<std::string>& penalties) const {
  const auto ids = [&](const TensorType& type, const std::string& table) {
    const Column& column = columns_[static_cast<size_t>(type.column)];
    const std::string name = IsByRows(mode, table) ? LookupName(table, column.name) : column.name;
    return ToShape(name, column.shape, type.shape, graph);
  };
  std::vector<LayerValue> inputs;
  for (size_t i = 0; i < columns_.size(); ++i) inputs.push_back(AddInput(i, graph));
  LayerTarget target{graph, mode, state, penalties, ids};
  const CallSettings whole = {.trainable = spec_.trainable};
  std::vector<LayerValue> outputs = BuildCalls(spec_, whole, inputs, target);
  graph.SetNamePrefix("penalties/");
  for (const RegularizedVariable& one : regularized_) {
    if (mode == ModelMode::kPrediction) break;
    penalties.push_back(AddPenalty(one.regularizer, one.variable, one.shape, Nodes(graph)));
  }
  graph.SetNamePrefix("");
  for (LayerValue& output : outputs) {
    output.value = ChannelsLast(output, Nodes(graph));
    output.channels_first = false;
  }
  return outputs;
}

}  // namespace cohort
