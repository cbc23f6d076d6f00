#include "coordinator/network/calls.h"

#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/base/status.h"
#include "coordinator/layers/penalty.h"

namespace cohort {
namespace {

std::string PathOf(const CallSettings& outer, const std::string& name) {
  return outer.layer.empty() ? name : absl::StrCat(outer.layer, "/", name);
}

// Returns the settings of a call, from the layer, the call and the call of the model around it.
CallSettings SettingsOf(const ModelSpec& model, const LayerCall& call, const CallSettings& outer) {
  const LayerSpec& layer = model.layers[call.layer];
  CallSettings settings{.layer = PathOf(outer, layer.name), .position = outer.position};
  settings.position.push_back(call.layer);
  settings.trainable = outer.trainable && layer.trainable;
  settings.flags.insert(call.flags.begin(), call.flags.end());
  return settings;
}

bool IsMask(const CallInput& input) {
  return input.argument == "mask" || absl::StartsWith(input.argument, "mask.");
}

// Returns the number of the input that the given mask belongs to.
size_t MaskedInput(const CallInput& mask) {
  size_t number = 0;
  const bool is_one_of_list = absl::StartsWith(mask.argument, "mask.");
  return is_one_of_list && absl::SimpleAtoi(mask.argument.substr(5), &number) ? number : 0;
}

// The tensors of one model by the calls that give them. `Tensor` is TensorType or LayerValue.
// Thread-compatible.
template <typename Tensor>
class CallTensors {
 public:
  CallTensors(const ModelSpec& model, absl::Span<const Tensor> inputs)
      : model_(model), inputs_(inputs), outputs_(model.calls.size()) {}

  // Returns the model's input that an InputLayer stands for.
  const Tensor& InputOf(size_t call) const {
    const auto found = std::find(model_.inputs.begin(), model_.inputs.end(), call);
    return inputs_[static_cast<size_t>(found - model_.inputs.begin())];
  }

  bool Has(const TensorRef& ref) const {
    return ref.call == TensorRef::kModelInput ? ref.tensor < inputs_.size()
                                              : ref.tensor < outputs_[ref.call].size();
  }
  const Tensor& At(const TensorRef& ref) const {
    return ref.call == TensorRef::kModelInput ? inputs_[ref.tensor]
                                              : outputs_[ref.call][ref.tensor];
  }
  void Set(size_t call, std::vector<Tensor> outputs) { outputs_[call] = std::move(outputs); }

 private:
  const ModelSpec& model_;
  const absl::Span<const Tensor> inputs_;
  std::vector<std::vector<Tensor>> outputs_;
};

absl::Status NoSuchOutput(const ModelSpec& model, const TensorRef& ref, const CallSettings& outer) {
  return absl::InvalidArgumentError(
      absl::StrCat("layer '", PathOf(outer, model.layers[model.calls[ref.call].layer].name),
                   "' has no output ", ref.tensor, ", which the model names"));
}

// Checks the shape that an InputLayer of a nested model declares; -1 is any size.
absl::Status CheckDeclared(const std::string& layer, const InputType& declared,
                           const Shape& actual) {
  bool fits = declared.shape.size() == static_cast<size_t>(actual.rank());
  for (size_t i = 0; fits && i < declared.shape.size(); ++i) {
    fits = declared.shape[i] < 0 || declared.shape[i] == actual.dim(static_cast<int>(i));
  }
  if (fits || !declared.has_shape) return absl::OkStatus();
  return WrongInput(layer, actual,
                    absl::StrCat("the model declares ", Shape(declared.shape).ToString()));
}

absl::StatusOr<std::vector<TensorType>> PlanLayer(const LayerSpec& layer, const LayerCall& call,
                                                  const CallSettings& settings,
                                                  const std::vector<TensorType>& types,
                                                  LayerPlan& plan) {
  std::vector<TensorType> inputs;
  CallSettings without_masks = settings;
  for (size_t i = 0; i < types.size(); ++i) {
    // Notes the columns whose values the call reads. Lookups and nested models note theirs
    // themselves.
    const LayerKind kind = layer.type->kind;
    if (types[i].column >= 0 && kind != LayerKind::kLookup && kind != LayerKind::kModel) {
      plan.UseColumn(types[i].column);
    }
    if (IsMask(call.inputs[i])) continue;
    inputs.push_back(types[i]);
    without_masks.arguments.push_back(call.inputs[i].argument);
  }
  if (inputs.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("layer '", settings.layer, "' is given nothing but a mask"));
  }
  ASSIGN_OR_RETURN(std::vector<TensorType> outputs,
                   layer.layer->Plan({without_masks, inputs}, plan));
  for (TensorType& output : outputs) {
    if (output.layer.empty()) output.layer = settings.layer;
  }
  return outputs;
}

// Returns the inputs of a call. Inputs that are masks are removed, and become the masks of other
// inputs.
std::vector<LayerValue> WithMasks(const LayerCall& call, const CallTensors<LayerValue>& tensors,
                                  CallSettings& settings) {
  std::vector<LayerValue> inputs;
  for (const CallInput& input : call.inputs) {
    if (IsMask(input)) continue;
    inputs.push_back(tensors.At(input.tensor));
    settings.arguments.push_back(input.argument);
  }
  for (const CallInput& input : call.inputs) {
    if (!IsMask(input)) continue;
    const size_t masked = MaskedInput(input);
    if (masked < inputs.size()) inputs[masked].mask = tensors.At(input.tensor).value;
  }
  return inputs;
}

std::vector<LayerValue> BuildLayer(const LayerSpec& layer, const CallSettings& settings,
                                   const std::vector<LayerValue>& inputs, LayerTarget& target) {
  std::vector<TensorType> types;
  types.reserve(inputs.size());
  for (const LayerValue& input : inputs) types.push_back(input.type);
  LayerPlan unused(/*seed=*/0);
  // Plan cannot fail here, because these types were accepted when the model was planned.
  const std::vector<TensorType> outputs = *layer.layer->Plan({settings, types}, unused);
  std::vector<LayerValue> values = layer.Build({settings, inputs, outputs}, target);
  for (size_t i = 0; i < values.size(); ++i) {
    values[i].type = outputs[i];
    if (layer.type->masks == MaskRule::kPass) values[i].mask = inputs[0].mask;
    if (layer.type->masks == MaskRule::kStop) values[i].mask.clear();
  }
  AddActivityPenalties({layer.activity, layer.activity_per_example}, values, target);
  return values;
}

}  // namespace

absl::StatusOr<std::vector<TensorType>> PlanCalls(const ModelSpec& model, const CallSettings& outer,
                                                  absl::Span<const TensorType> inputs,
                                                  LayerPlan& plan) {
  if (inputs.size() != model.num_inputs()) {
    return absl::InvalidArgumentError(absl::StrCat("model '", outer.layer, "' is given ",
                                                   inputs.size(), " tensors; it has ",
                                                   model.num_inputs(), " inputs"));
  }
  CallTensors<TensorType> tensors(model, inputs);
  for (size_t i = 0; i < model.calls.size(); ++i) {
    const LayerCall& call = model.calls[i];
    const LayerSpec& layer = model.layers[call.layer];
    const CallSettings settings = SettingsOf(model, call, outer);
    RETURN_IF_ERROR(plan.CountCall());
    if (const InputType* const declared = layer.input()) {
      RETURN_IF_ERROR(CheckDeclared(settings.layer, *declared, tensors.InputOf(i).shape));
      tensors.Set(i, {tensors.InputOf(i)});
      continue;
    }
    std::vector<TensorType> types;
    for (const CallInput& input : call.inputs) {
      if (!tensors.Has(input.tensor)) return NoSuchOutput(model, input.tensor, outer);
      types.push_back(tensors.At(input.tensor));
    }
    ASSIGN_OR_RETURN(std::vector<TensorType> outputs,
                     PlanLayer(layer, call, settings, types, plan));
    plan.NoteOutputs(settings, outputs);
    tensors.Set(i, std::move(outputs));
  }
  std::vector<TensorType> outputs;
  for (const TensorRef& output : model.outputs) {
    if (!tensors.Has(output)) return NoSuchOutput(model, output, outer);
    outputs.push_back(tensors.At(output));
  }
  return outputs;
}

std::vector<LayerValue> BuildCalls(const ModelSpec& model, const CallSettings& outer,
                                   absl::Span<const LayerValue> inputs, LayerTarget& target) {
  CallTensors<LayerValue> tensors(model, inputs);
  for (size_t i = 0; i < model.calls.size(); ++i) {
    const LayerCall& call = model.calls[i];
    const LayerSpec& layer = model.layers[call.layer];
    CallSettings settings = SettingsOf(model, call, outer);
    target.graph.SetNamePrefix(absl::StrCat(settings.layer, "/"));
    if (layer.input() != nullptr) {
      tensors.Set(i, {tensors.InputOf(i)});
      continue;
    }
    // A call with `training` true or false computes in that mode in every program.
    LayerTarget called = target;
    if (call.training) {
      const ModelMode otherwise =
          target.mode == ModelMode::kPrediction ? target.mode : ModelMode::kEvaluation;
      called.mode = *call.training ? ModelMode::kTraining : otherwise;
    }
    const std::vector<LayerValue> values = WithMasks(call, tensors, settings);
    tensors.Set(i, BuildLayer(layer, settings, values, called));
  }
  std::vector<LayerValue> outputs;
  for (const TensorRef& output : model.outputs) outputs.push_back(tensors.At(output));
  return outputs;
}

}  // namespace cohort
