#include <utility>

#include "common/program/cohort_ops.h"
#include "common/program/gradient_rules.h"

namespace cohort {
namespace {

// Returns output `i` of the node, or its gradient, or "" if the node lacks that output.
std::string OutputOr(const GradientSite& site, int i) {
  return i < site.node().output_size() ? site.output(i) : "";
}
std::string GradientOr(const GradientSite& site, int i) {
  return i < site.node().output_size() ? site.dy(i) : "";
}

// Sets the gradients of a layer with these attributes. RecurrentGrad has the inputs of the layer,
// the gradients of its outputs, and the saved rows or the lengths of the sequences.
absl::Status SetLayerGradients(GradientSite& site, std::vector<onnx::AttributeProto> attributes,
                               const std::string& saved) {
  if (!saved.empty() && !GradientOr(site, 3).empty()) {
    return absl::InvalidArgumentError("the rows that it saves have no gradient");
  }
  const bool onnx = site.node().domain().empty();
  std::vector<std::string> inputs;
  for (int i = 0; i < 8; ++i) inputs.push_back(i == 4 && onnx ? "" : site.input(i));
  for (int i = 0; i < 3; ++i) inputs.push_back(GradientOr(site, i));
  inputs.push_back(saved);
  inputs.push_back(onnx ? site.input(4) : "");
  // In ONNX, a node's list of inputs must not end with absent inputs.
  while (inputs.back().empty()) inputs.pop_back();
  // The layer's input of each gradient.
  const int of_input[] = {0, 1, 2, 3, 5, 6, 7};
  std::vector<bool> wanted;
  for (const int input : of_input) wanted.push_back(site.Wants(input));
  const auto gradients =
      site.builder().OpSome("RecurrentGrad", inputs, wanted, std::move(attributes), kCohortDomain);
  for (size_t i = 0; i < wanted.size(); ++i) {
    if (wanted[i]) site.Set(of_input[i], gradients[i]);
  }
  return absl::OkStatus();
}

std::vector<onnx::AttributeProto> LayerAttributes(const GradientSite& site) {
  return site.CopyAttributes({"cell", "activations", "activation_alpha", "activation_beta",
                              "direction", "hidden_size", "layout", "linear_before_reset",
                              "zero_output_for_mask", "go_backwards"});
}

// Sets the gradients of ONNX's LSTM, GRU or RNN, whose steps RecurrentGrad computes again, because
// the operator keeps none of what it needs.
absl::Status OnnxLayer(GradientSite& site) {
  if (site.Attribute("clip") != nullptr || site.Int("input_forget", 0) != 0) {
    return absl::InvalidArgumentError("clip and input_forget have no gradient");
  }
  auto attributes = LayerAttributes(site);
  attributes.push_back(StringAttribute("cell", site.node().op_type()));
  return SetLayerGradients(site, std::move(attributes), "");
}

// Sets the gradients of Recurrent. AddGradients has given the node its output saved.
absl::Status Recurrent(GradientSite& site) {
  return SetLayerGradients(site, LayerAttributes(site), OutputOr(site, 3));
}

}  // namespace

void AddRecurrentGradients(GradientRules& rules) {
  for (const char* op : {"LSTM", "GRU", "RNN"}) rules[op] = {OnnxLayer};
  rules["cohort.Recurrent"] = {Recurrent, {"", "", "saved"}};
}

}  // namespace cohort
