#include "common/program/cohort_ops.h"
#include "tests/device/gradient_cases.h"

// LSTM, GRU, RNN and Recurrent. The loss depends on all outputs.

namespace cohort {
namespace {

using Attributes = std::vector<onnx::AttributeProto>;
using Inputs = std::vector<std::string>;

constexpr int64_t kFeatures = 2;
constexpr int64_t kHidden = 3;

onnx::AttributeProto Strings(const char* name, const std::vector<std::string>& values) {
  onnx::AttributeProto attribute;
  attribute.set_name(name);
  attribute.set_type(onnx::AttributeProto::STRINGS);
  for (const std::string& value : values) attribute.add_strings(value);
  return attribute;
}

onnx::AttributeProto Floats(const char* name, const std::vector<float>& values) {
  onnx::AttributeProto attribute;
  attribute.set_name(name);
  attribute.set_type(onnx::AttributeProto::FLOATS);
  for (const float value : values) attribute.add_floats(value);
  return attribute;
}

// A layer, and what it is given.
struct Layer {
  std::string cell;
  Attributes attributes = {};
  bool onnx = true;  // ONNX's operator, or else cohort.Recurrent
  int64_t directions = 1;
  int64_t steps = 4;
  int64_t batch = -1;
  bool batch_first = false;
  bool has_bias = true;
  bool has_states = true;
  bool has_peepholes = false;
  Tensor mask = {};  // or the lengths of sequences
};

int64_t GatesOf(const std::string& cell) { return cell == "LSTM" ? 4 : cell == "GRU" ? 3 : 1; }

std::vector<GradientInput> InputsOf(const Layer& layer) {
  const int64_t d = layer.directions;
  const int64_t rows = GatesOf(layer.cell) * kHidden;
  const GradientInput state = {layer.batch_first ? std::vector<int64_t>{layer.batch, d, kHidden}
                                                 : std::vector<int64_t>{d, layer.batch, kHidden}};
  std::vector<GradientInput> inputs = {
      {layer.batch_first ? std::vector<int64_t>{layer.batch, layer.steps, kFeatures}
                         : std::vector<int64_t>{layer.steps, layer.batch, kFeatures}},
      {{d, rows, kFeatures}},
      {{d, rows, kHidden}}};
  if (layer.has_bias) inputs.push_back({{d, 2 * rows}});
  if (layer.has_states) inputs.push_back(state);
  if (layer.has_states && layer.cell == "LSTM") inputs.push_back(state);
  if (layer.has_peepholes) inputs.push_back({{d, 3 * kHidden}});
  return inputs;
}

// Returns all outputs of the layer as one vector.
std::string Build(const Layer& layer, GraphBuilder& builder, const Inputs& x) {
  Inputs inputs = {x[0], x[1], x[2]};
  size_t next = 3;
  const auto take = [&](bool has) { inputs.push_back(has ? x[next++] : ""); };
  take(layer.has_bias);
  inputs.push_back(layer.mask.has_value() ? builder.Constant("mask", layer.mask) : "");
  take(layer.has_states);
  const bool lstm = layer.cell == "LSTM";
  if (lstm) take(layer.has_states);
  if (lstm) take(layer.has_peepholes);
  while (inputs.back().empty()) inputs.pop_back();
  Attributes attributes = layer.attributes;
  attributes.push_back(IntAttribute("hidden_size", kHidden));
  if (layer.batch_first) attributes.push_back(IntAttribute("layout", 1));
  if (!layer.onnx) attributes.push_back(StringAttribute("cell", layer.cell));
  const auto outputs = builder.OpN(layer.onnx ? layer.cell : "Recurrent", inputs, lstm ? 3 : 2,
                                   std::move(attributes), layer.onnx ? "" : kCohortDomain);
  const std::string all = builder.Constant("all", Numbers({-1}));
  Inputs flat;
  for (const std::string& output : outputs) flat.push_back(builder.Op("Reshape", {output, all}));
  return builder.Op("Concat", flat, {IntAttribute("axis", 0)});
}

void Add(std::vector<GradientCase>& cases, const std::string& name, const Layer& layer) {
  cases.push_back({layer.cell + "_" + name, InputsOf(layer),
                   [layer](GraphBuilder& builder, const Inputs& x, DType) {
                     return Build(layer, builder, x);
                   }});
}

// The mask of a batch of 3 over 4 steps, [steps,batch]: gaps, steps before and behind a sequence,
// and an example without any step.
Tensor Mask(bool batch_first) {
  constexpr bool kCounts[4][3] = {{1, 0, 0}, {0, 1, 0}, {1, 1, 0}, {1, 0, 0}};
  Tensor mask(DType::kBool, batch_first ? Shape{3, 4} : Shape{4, 3});
  for (int t = 0; t < 4; ++t) {
    for (int n = 0; n < 3; ++n) {
      mask.mutable_data<bool>()[batch_first ? n * 4 + t : t * 3 + n] = kCounts[t][n];
    }
  }
  return mask;
}

void AddWays(std::vector<GradientCase>& cases, const Layer& plain) {
  Add(cases, "plain", plain);
  Layer layer = plain;
  layer.has_bias = layer.has_states = false;
  Add(cases, "without_bias_and_states", layer);
  for (const char* direction : {"reverse", "bidirectional"}) {
    layer = plain;
    layer.directions = direction == std::string("bidirectional") ? 2 : 1;
    layer.attributes.push_back(StringAttribute("direction", direction));
    Add(cases, direction, layer);
    layer.batch = 3;
    layer.mask = Tensor::FromVector<int32_t>({4, 0, 2}, {3});
    Add(cases, std::string(direction) + "_lengths", layer);
  }
  layer = plain;
  layer.batch_first = true;
  Add(cases, "batch_first", layer);
  layer = plain;
  layer.steps = 1;
  Add(cases, "one_step", layer);
  layer = plain;
  layer.batch = 0;
  Add(cases, "no_examples", layer);
  layer = plain;
  layer.steps = 0;
  Add(cases, "no_steps", layer);
}

void AddMasks(std::vector<GradientCase>& cases, Layer plain) {
  plain.onnx = false;
  Add(cases, "saved", plain);
  plain.batch = 3;
  for (const bool batch_first : {false, true}) {
    for (const int64_t zeros : {0, 1}) {
      for (const int64_t backwards : {0, 1}) {
        Layer layer = plain;
        layer.batch_first = batch_first;
        layer.mask = Mask(batch_first);
        layer.attributes.push_back(IntAttribute("zero_output_for_mask", zeros));
        layer.attributes.push_back(IntAttribute("go_backwards", backwards));
        Add(cases,
            std::string("mask") + (batch_first ? "_batch_first" : "") + (zeros ? "_zeros" : "") +
                (backwards ? "_backwards" : ""),
            layer);
      }
    }
  }
}

}  // namespace

std::vector<GradientCase> RecurrentGradientCases() {
  std::vector<GradientCase> cases;
  for (const char* cell : {"LSTM", "GRU", "RNN"}) {
    Layer plain;
    plain.cell = cell;
    AddWays(cases, plain);
    AddMasks(cases, plain);
  }
  Layer gru;
  gru.cell = "GRU";
  gru.attributes = {IntAttribute("linear_before_reset", 1)};
  std::vector<GradientCase> linear;
  AddWays(linear, gru);
  AddMasks(linear, gru);
  for (GradientCase& each : linear) {
    each.name += "_linear";
    cases.push_back(std::move(each));
  }
  Layer lstm;
  lstm.cell = "LSTM";
  lstm.has_peepholes = true;
  Add(cases, "peepholes", lstm);
  lstm.onnx = false;
  lstm.batch = 3;
  lstm.mask = Mask(false);
  Add(cases, "peepholes_mask", lstm);
  Layer rnn;
  rnn.cell = "RNN";
  for (const char* name : {"Sigmoid", "Relu", "Affine", "LeakyRelu", "ThresholdedRelu",
                           "ScaledTanh", "HardSigmoid", "Elu", "Softsign", "Softplus"}) {
    rnn.attributes = {Strings("activations", {name}), Floats("activation_alpha", {0.25f}),
                      Floats("activation_beta", {0.375f})};
    Add(cases, name, rnn);
  }
  Layer keras;  // with Keras 2's functions
  keras.cell = "LSTM";
  keras.attributes = {Strings("activations", {"HardSigmoid", "Tanh", "Softsign"}),
                      Floats("activation_alpha", {0.2f}), Floats("activation_beta", {0.5f})};
  Add(cases, "functions", keras);
  return cases;
}

}  // namespace cohort
