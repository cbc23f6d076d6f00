#include "tests/device/op_parity_cases.h"

// LSTM, GRU, RNN, Recurrent and their gradients.

namespace cohort {
namespace {

using Attributes = std::vector<onnx::AttributeProto>;

onnx::AttributeProto Strings(const char* name, const std::vector<std::string>& values) {
  onnx::AttributeProto attribute;
  attribute.set_name(name);
  attribute.set_type(onnx::AttributeProto::STRINGS);
  for (const std::string& value : values) attribute.add_strings(value);
  return attribute;
}

struct Sizes {
  int64_t steps;
  int64_t batch;
  int64_t features;
  int64_t hidden;
};

// The shapes of a layer.
struct Layer {
  std::string cell;
  Attributes attributes;
  Sizes sizes;
  int64_t directions = 1;
  bool batch_first = false;
  int64_t gates = 4;
  int64_t parts = 6;

  int64_t rows() const { return gates * sizes.hidden; }
  OpInput X() const {
    return {batch_first ? Shape{sizes.batch, sizes.steps, sizes.features}
                        : Shape{sizes.steps, sizes.batch, sizes.features}};
  }
  // Weights and biases are small, so that gates are not all at their bounds.
  OpInput W() const { return {{directions, rows(), sizes.features}, OpFill::kProbability}; }
  OpInput R() const { return {{directions, rows(), sizes.hidden}, OpFill::kProbability}; }
  OpInput B() const { return {{directions, 2 * rows()}}; }
  OpInput MaskInput() const {
    return {batch_first ? Shape{sizes.batch, sizes.steps} : Shape{sizes.steps, sizes.batch},
            OpFill::kMask};
  }
  OpInput State() const {
    return {batch_first ? Shape{sizes.batch, directions, sizes.hidden}
                        : Shape{directions, sizes.batch, sizes.hidden}};
  }
  OpInput Y() const {
    return {batch_first ? Shape{sizes.batch, sizes.steps, directions, sizes.hidden}
                        : Shape{sizes.steps, directions, sizes.batch, sizes.hidden}};
  }
};

void AddCase(std::vector<OpCase>& cases, OpCase each) {
  each.slack = kLongSums;
  cases.push_back(std::move(each));
}

void AddLayer(std::vector<OpCase>& cases, const Layer& layer) {
  const bool lstm = layer.cell == "LSTM";
  const OpInput none = OpInput::Absent();
  const std::vector<OpInput> weights = {layer.X(), layer.W(), layer.R()};
  AddCase(cases, {kOnnx, layer.cell, weights, layer.attributes, lstm ? 3 : 2});
  std::vector<OpInput> full = {layer.X(), layer.W(), layer.R(), layer.B(), none, layer.State()};
  if (lstm) full.push_back(layer.State());
  AddCase(cases, {kOnnx, layer.cell, full, layer.attributes, lstm ? 3 : 2});
  AddCase(cases, {kOnnx, layer.cell, full, layer.attributes, 1});
  for (const int64_t zeros : {0, 1}) {
    Attributes attributes = layer.attributes;
    attributes.push_back(StringAttribute("cell", layer.cell));
    attributes.push_back(IntAttribute("zero_output_for_mask", zeros));
    if (zeros == 1 && layer.directions == 1 && layer.attributes.empty()) {
      attributes.push_back(IntAttribute("go_backwards", 1));
    }
    std::vector<OpInput> masked = full;
    masked[4] = layer.MaskInput();
    AddCase(cases, {kCohort, "Recurrent", masked, attributes, 1});
    if (lstm) AddCase(cases, {kCohort, "Recurrent", masked, attributes, 4});
    for (const bool has_mask : {false, true}) {
      std::vector<OpInput> gradient = has_mask ? masked : full;
      while (gradient.size() < 8) gradient.push_back(none);
      for (const OpInput& each : {layer.Y(), layer.State(), layer.State()}) {
        gradient.push_back(each);
      }
      if (!lstm) gradient.pop_back();
      AddCase(cases, {kCohort, "RecurrentGrad", gradient, attributes, lstm ? 6 : 5});
      gradient.resize(9);
      AddCase(cases, {kCohort, "RecurrentGrad", gradient, attributes, 4});
    }
  }
}

}  // namespace

std::vector<OpCase> RecurrentOpCases() {
  std::vector<OpCase> cases;
  for (const auto& [cell, gates] :
       {std::pair<std::string, int64_t>{"LSTM", 4}, {"GRU", 3}, {"RNN", 1}}) {
    Layer layer = {cell, {}, {5, 3, 7, 6}, 1, false, gates};
    AddLayer(cases, layer);
    layer.batch_first = true;
    layer.attributes = {IntAttribute("layout", 1)};
    AddLayer(cases, layer);
    layer.batch_first = false;
    layer.attributes = {StringAttribute("direction", "reverse")};
    AddLayer(cases, layer);
    for (const Sizes& sizes : {Sizes{4, 1, 3, 17}, Sizes{1, 2, 1, 1}, Sizes{3, 0, 2, 3}}) {
      layer.sizes = sizes;
      layer.directions = 2;
      layer.attributes = {StringAttribute("direction", "bidirectional")};
      AddLayer(cases, layer);
      if (cell != "GRU") continue;
      layer.attributes.push_back(IntAttribute("linear_before_reset", 1));
      AddLayer(cases, layer);
    }
  }
  // Functions with a loop, and one without.
  for (const char* name : {"Relu", "Affine", "Softsign"}) {
    AddLayer(cases, {"LSTM", {Strings("activations", {"Sigmoid", name, name})}, {3, 2, 3, 5}});
  }
  AddLayer(cases,
           {"LSTM", {Strings("activations", {"HardSigmoid", "Tanh", "Tanh"})}, {3, 2, 3, 5}});
  return cases;
}

}  // namespace cohort
