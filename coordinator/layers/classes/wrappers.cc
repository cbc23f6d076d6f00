// Layers around other layers: Bidirectional and TimeDistributed.

#include <algorithm>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/base/status.h"
#include "common/cluster/json_text.h"
#include "coordinator/layers/classes/layer_classes.h"
#include "coordinator/layers/layer_reader.h"
#include "coordinator/layers/nodes.h"
#include "coordinator/layers/penalty.h"
#include "nlohmann/json.hpp"

namespace cohort {
namespace {

using nlohmann::json;

// Returns the settings of a layer within the layer of a call.
CallSettings InnerSettings(const CallSettings& outer, const LayerSpec& inner, size_t number) {
  CallSettings settings = outer;
  settings.layer = absl::StrCat(outer.layer, "/", inner.name);
  settings.position.push_back(number);
  settings.trainable = outer.trainable && inner.trainable;
  settings.arguments.clear();
  return settings;
}

// Reads the layer under `key`, and records it.
std::optional<LayerSpec> ReadInner(const char* key, const json& form, LayerReader& reader) {
  const std::string path = JoinKeys(reader.config.path(), key);
  ReadLayerResult read = ReadLayer({path, reader.config.errors(), &form}, reader.context());
  if (!read.layer) return std::nullopt;
  if (read.layer->name.empty()) read.layer->name = key;
  reader.config.RecordAs(key, LayerToJson(*read.layer));
  return std::move(read.layer);
}

// Walks the steps of its input in both directions, each with a recurrent layer of its own.
class Bidirectional : public Layer {
 public:
  void Read(LayerReader& reader) override {
    ObjectReader& config = reader.config;
    reader.FloatPolicy();
    ReadMergeMode(config);
    const json* const layer = config.Require("layer");
    const json* const backward = config.Find("backward_layer");
    if (layer == nullptr || !IsRecurrent(*layer) ||
        (backward != nullptr && !IsRecurrent(*backward))) {
      return config.AddError("layer", "must be SimpleRNN, LSTM, GRU or RNN");
    }
    const json& flags = (*layer)["config"];
    return_sequences_ = flags.value("return_sequences", false);
    return_state_ = flags.value("return_state", false);
    // Keras 2 writes the name of the wrapped layer, and Keras 3 the name of each direction.
    json forward_form = *layer;
    json backward_form = backward != nullptr ? *backward : Turned(*layer);
    const std::string name = flags.value("name", "layer");
    const bool is_named = absl::StartsWith(name, "forward_");
    const std::string stem = is_named ? name.substr(std::string("forward_").size()) : name;
    forward_form["config"]["name"] = "forward_" + stem;
    if (backward == nullptr || !is_named) {
      const std::string other = backward_form["config"].value("name", stem);
      const std::string other_stem = backward != nullptr ? other : stem;
      backward_form["config"]["name"] =
          absl::StartsWith(other_stem, "backward_") ? other_stem : "backward_" + other_stem;
    }
    std::optional<LayerSpec> first = ReadInner("layer", forward_form, reader);
    std::optional<LayerSpec> second = ReadInner("backward_layer", backward_form, reader);
    if (!first || !second) return;
    forward_ = *std::move(first);
    backward_ = *std::move(second);
    // Keras from 2.6 on gives zeros for masked steps, whatever the wrapped layers say.
    forces_zeros_ = return_sequences_ && reader.Keras() >= KerasVersion{2, 4};
    passes_mask_ = return_sequences_;
  }

  absl::StatusOr<std::vector<TensorType>> Plan(const PlannedCall& call,
                                               LayerPlan& plan) const override {
    std::vector<TensorType> first, second;
    for (const bool is_forward : {true, false}) {
      const LayerSpec& inner = is_forward ? forward_ : backward_;
      const std::vector<TensorType> inputs = InputsOf(call.inputs, is_forward);
      CallSettings settings = InnerSettings(call.settings, inner, is_forward ? 0 : 1);
      settings.arguments.resize(inputs.size());
      ASSIGN_OR_RETURN(std::vector<TensorType> types, inner.layer->Plan({settings, inputs}, plan));
      (is_forward ? first : second) = std::move(types);
    }
    std::vector<TensorType> types = {first[0]};
    if (merge_mode_ == "none") {
      types.push_back(second[0]);
    } else {
      std::vector<int64_t> dims(first[0].shape.dims().begin(), first[0].shape.dims().end());
      if (merge_mode_ == "concat") {
        dims.back() += second[0].shape.dims().back();
      } else if (first[0].shape != second[0].shape) {
        return WrongInput(call.settings.layer, call.shape(),
                          "its layers give tensors of different sizes, which only 'concat' joins");
      }
      types[0].shape = Shape(dims);
    }
    types.insert(types.end(), first.begin() + 1, first.end());
    types.insert(types.end(), second.begin() + 1, second.end());
    for (TensorType& type : types) type.layer.clear();
    return types;
  }

  std::vector<LayerValue> Build(const BuiltCall& call, LayerTarget& target) const override {
    const Nodes nodes(target.graph);
    std::vector<LayerValue> first = BuildOne(call, /*is_forward=*/true, target);
    std::vector<LayerValue> second = BuildOne(call, /*is_forward=*/false, target);
    if (return_sequences_) second[0].value = Reversed(second[0].value, call.shape().dim(0), nodes);
    std::vector<LayerValue> values;
    if (merge_mode_ == "none") {
      values = {{first[0].value}, {second[0].value}};
    } else {
      values = {{Merged(first[0].value, second[0].value, nodes)}};
    }
    for (LayerValue& value : values) {
      if (passes_mask_) value.mask = call.input().mask;
    }
    values.insert(values.end(), first.begin() + 1, first.end());
    values.insert(values.end(), second.begin() + 1, second.end());
    return values;
  }

 private:
  void ReadMergeMode(ObjectReader& config) {
    const json* const value = config.Find("merge_mode");
    // merge_mode null means that both outputs are returned. Find() returns null for an absent key
    // and for null alike.
    if (value == nullptr && config.HoldsNull("merge_mode")) {
      merge_mode_ = "none";
      return config.RecordAs("merge_mode", nullptr);
    }
    config.Choice("merge_mode", {"concat", "sum", "mul", "ave"}, &merge_mode_);
  }

  static bool IsRecurrent(const json& form) {
    if (!form.is_object() || !form.contains("config") || !form["config"].is_object()) return false;
    for (const char* name : {"SimpleRNN", "LSTM", "GRU", "RNN", "UnifiedLSTM", "UnifiedGRU"}) {
      if (form.value("class_name", json()) == name) return true;
    }
    return false;
  }

  // Returns the class form of the layer for the other direction.
  static json Turned(const json& form) {
    json turned = form;
    const json& flag = form["config"].value("go_backwards", json(false));
    turned["config"]["go_backwards"] = !(flag.is_boolean() && flag.get<bool>());
    return turned;
  }

  // Returns the tensors that one direction gets: the input, and its half of the states.
  template <typename Tensor>
  static std::vector<Tensor> InputsOf(absl::Span<const Tensor> inputs, bool is_forward) {
    const size_t half = (inputs.size() - 1) / 2;
    std::vector<Tensor> own = {inputs[0]};
    const auto states = inputs.subspan(1 + (is_forward ? 0 : half), half);
    own.insert(own.end(), states.begin(), states.end());
    return own;
  }

  std::vector<LayerValue> BuildOne(const BuiltCall& call, bool is_forward,
                                   LayerTarget& target) const {
    const LayerSpec& inner = is_forward ? forward_ : backward_;
    const std::vector<LayerValue> inputs = InputsOf(call.inputs, is_forward);
    CallSettings settings = InnerSettings(call.settings, inner, is_forward ? 0 : 1);
    settings.arguments.resize(inputs.size());
    if (forces_zeros_) settings.flags.insert("zero_output_for_mask");
    std::vector<TensorType> types;
    for (const LayerValue& input : inputs) types.push_back(input.type);
    LayerPlan unused(/*seed=*/0);
    const std::vector<TensorType> outputs = *inner.layer->Plan({settings, types}, unused);
    std::vector<LayerValue> values = inner.Build({settings, inputs, outputs}, target);
    for (size_t i = 0; i < values.size(); ++i) values[i].type = outputs[i];
    AddActivityPenalties({inner.activity, inner.activity_per_example}, values, target);
    return values;
  }

  static std::string Reversed(const std::string& x, int64_t steps, const Nodes& nodes) {
    std::vector<int64_t> positions;
    for (int64_t i = steps; i-- > 0;) positions.push_back(i);
    return nodes.graph().Op("Gather", {x, nodes.Ints(positions)}, {IntAttribute("axis", 1)});
  }

  std::string Merged(const std::string& a, const std::string& b, const Nodes& nodes) const {
    if (merge_mode_ == "concat") return nodes.Concat({a, b}, -1);
    if (merge_mode_ == "mul") return nodes.Mul(a, b);
    const std::string sum = nodes.Add(a, b);
    return merge_mode_ == "ave" ? nodes.Mul(sum, nodes.Number(0.5)) : sum;
  }

  LayerSpec forward_;
  LayerSpec backward_;
  std::string merge_mode_ = "concat";
  bool return_sequences_ = false;
  bool return_state_ = false;
  bool forces_zeros_ = false;
  bool passes_mask_ = false;
};

// Applies a layer to each step of its input.
class TimeDistributed : public Layer {
 public:
  void Read(LayerReader& reader) override {
    reader.FloatPolicy();
    const json* const layer = reader.config.Require("layer");
    if (layer == nullptr) return;
    std::optional<LayerSpec> inner = ReadInner("layer", *layer, reader);
    if (!inner) return;
    inner_ = *std::move(inner);
    // Keras 3 calls the layer once for each step, so BatchNormalization normalizes each step by
    // itself.
    const bool normalizes = inner_.type->name == absl::string_view(kBatchNorm) ||
                            absl::StrContains(inner_.config, absl::StrCat("\"", kBatchNorm, "\""));
    trains_by_step_ = normalizes && !reader.Keras().IsKeras2();
    penalizes_ = inner_.activity.is_none() || reader.Keras().IsKeras2();
  }

  absl::StatusOr<std::vector<TensorType>> Plan(const PlannedCall& call,
                                               LayerPlan& plan) const override {
    if (call.shape().rank() < 1) {
      return WrongInput(call.settings.layer, call.shape(), "it needs steps");
    }
    if (trains_by_step_ && call.shape().dim(0) > kStepsMax) {
      return WrongInput(call.settings.layer, call.shape(),
                        absl::StrCat("it normalizes each step by itself, and takes at most ",
                                     kStepsMax, " steps"));
    }
    ASSIGN_OR_RETURN(std::vector<TensorType> types, PlanStep(call.settings, call.shape(), plan));
    for (TensorType& type : types) {
      std::vector<int64_t> dims(type.shape.dims().begin(), type.shape.dims().end());
      dims.insert(dims.begin(), call.shape().dim(0));
      type = {.dtype = type.dtype, .shape = Shape(dims)};
      if (type.shape.num_elements() > kElementsMax) {
        return WrongInput(call.settings.layer, call.shape(), "that is more than 2^31 elements");
      }
    }
    return types;
  }

  // The steps of all examples become examples of the inner layer.
  std::vector<LayerValue> Build(const BuiltCall& call, LayerTarget& target) const override {
    const Nodes nodes(target.graph);
    LayerPlan unused(/*seed=*/0);
    const Shape step = StepShape(call.shape());
    const std::vector<TensorType> types = *PlanStep(call.settings, call.shape(), unused);
    LayerValue input;
    input.value = nodes.ReshapeExamples(ChannelsLast(call.input(), nodes), step);
    input.type.shape = step;
    const CallSettings settings = Settings(call.settings);
    if (trains_by_step_ && target.mode == ModelMode::kTraining) {
      return BuildSteps(call, settings, types, target);
    }
    std::vector<LayerValue> values = inner_.Build({settings, {&input, 1}, types}, target);
    for (size_t i = 0; i < values.size(); ++i) values[i].type = types[i];
    // Keras 3 loses what the layer within adds to the loss.
    if (penalizes_) {
      AddActivityPenalties({inner_.activity, inner_.activity_per_example}, values, target);
    }
    for (size_t i = 0; i < values.size(); ++i) {
      const std::string value = ChannelsLast(values[i], nodes);
      values[i] = {nodes.ReshapeExamples(value, call.outputs[i].shape)};
    }
    return values;
  }

 private:
  static constexpr char kBatchNorm[] = "BatchNormalization";
  static constexpr int64_t kStepsMax = 2048;

  // Adds the inner layer once for each step.
  std::vector<LayerValue> BuildSteps(const BuiltCall& call, const CallSettings& settings,
                                     const std::vector<TensorType>& types,
                                     LayerTarget& target) const {
    const Nodes nodes(target.graph);
    const std::string x = ChannelsLast(call.input(), nodes);
    std::vector<std::vector<std::string>> parts(types.size());
    for (int64_t i = 0; i < call.shape().dim(0); ++i) {
      const Shape shape = StepShape(call.shape());
      LayerValue step{nodes.ReshapeExamples(nodes.Slice(x, 1, i, i + 1), shape)};
      step.type.shape = shape;
      std::vector<LayerValue> values = inner_.Build({settings, {&step, 1}, types}, target);
      for (size_t k = 0; k < values.size(); ++k) {
        values[k].type = types[k];
        parts[k].push_back(nodes.Unsqueeze(ChannelsLast(values[k], nodes), 1));
      }
    }
    std::vector<LayerValue> outputs;
    for (const std::vector<std::string>& steps : parts) outputs.push_back({nodes.Concat(steps, 1)});
    return outputs;
  }

  static Shape StepShape(const Shape& shape) { return Shape(shape.dims().subspan(1)); }

  CallSettings Settings(const CallSettings& outer) const {
    CallSettings settings = InnerSettings(outer, inner_, 0);
    settings.arguments = {""};
    return settings;
  }

  absl::StatusOr<std::vector<TensorType>> PlanStep(const CallSettings& outer, const Shape& shape,
                                                   LayerPlan& plan) const {
    const TensorType step{.shape = StepShape(shape)};
    const CallSettings settings = Settings(outer);
    return inner_.layer->Plan({settings, {&step, 1}}, plan);
  }

  LayerSpec inner_;
  bool trains_by_step_ = false;
  bool penalizes_ = true;
};

}  // namespace

void AddWrapperLayers(std::vector<LayerClass>& classes) {
  classes.push_back({"Bidirectional", MakeLayer<Bidirectional>, MaskRule::kOwn, LayerKind::kSeveral,
                     "initial_state"});
  classes.push_back({"TimeDistributed", MakeLayer<TimeDistributed>, MaskRule::kPass});
}

}  // namespace cohort
