// Recurrent layers: SimpleRNN, LSTM and GRU, and RNN of a cell (recurrent_cell.h). Where one
// operator computes the cell over all steps, a graph has this operator: cohort.Recurrent, or in a
// prediction ONNX's own. Else a graph has the nodes of every step.

#include <algorithm>
#include <numeric>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "common/base/status.h"
#include "common/program/cohort_ops.h"
#include "coordinator/layers/classes/layer_classes.h"
#include "coordinator/layers/classes/recurrent_cell.h"
#include "coordinator/layers/layer_reader.h"
#include "coordinator/layers/nodes.h"
#include "nlohmann/json.hpp"

namespace cohort {
namespace {

// Upper bound on the steps, each of which has nodes of its own.
constexpr int64_t kStepsMax = 2048;

class Recurrent : public Layer {
 public:
  // Makes a layer whose cell has the class's name in Keras: an "LSTM" has an "lstm_cell". An RNN
  // reads its cell from the config.
  explicit Recurrent(const std::string& class_name)
      : cell_(MakeCell(class_name)),
        cell_name_(class_name == "SimpleRNN" ? "simple_rnn_cell"
                                             : absl::AsciiStrToLower(class_name) + "_cell") {}

  void Read(LayerReader& reader) override {
    ObjectReader& config = reader.config;
    reader.FloatPolicy();
    if (cell_ != nullptr) {
      cell_->Read(reader);
    } else {
      config.Require("cell");
      if (const auto place = config.Place("cell"); place && place->value != nullptr) {
        cell_ = ReadCell(*place, reader.context(), &cell_name_);
      }
    }
    config.Bool("return_sequences", &return_sequences_);
    config.Bool("return_state", &return_state_);
    config.Bool("go_backwards", &go_backwards_);
    config.Bool("zero_output_for_mask", &zero_output_for_mask_);
    const auto* const stateful = config.Find("stateful");
    if (stateful != nullptr && *stateful == true) {
      // Keras 2 refuses such a layer in the scope of a strategy.
      config.AddError(
          "stateful",
          "is true: its state would go from batch to batch, while batches run on several workers "
          "at once, and again after a loss, which is not supported; leave it out or give false");
    } else {
      config.OnlyNeutral("stateful", false);
    }
    config.OnlyNeutral("time_major", false);
    config.Ignore("unroll");
    passes_mask_ = return_sequences_;
  }

  absl::StatusOr<std::vector<TensorType>> Plan(const PlannedCall& call,
                                               LayerPlan& plan) const override {
    const Shape& shape = call.shape();
    if (shape.rank() != 2 || shape.dim(0) > kStepsMax) {
      return WrongInput(call.settings.layer, shape,
                        absl::StrCat("it needs [steps, size] with at most ", kStepsMax, " steps"));
    }
    const CellForm form = cell_->Form();
    const size_t states = call.inputs.size() - 1;
    if (states != 0 && states != form.state_sizes.size()) {
      return WrongInput(
          call.settings.layer, shape,
          absl::StrCat("it has ", form.state_sizes.size(), " states, and is given ", states));
    }
    RETURN_IF_ERROR(cell_->Plan(call, cell_name_, shape.dim(1), plan));
    std::vector<TensorType> types;
    const int64_t size = form.output_size();
    types.push_back({.shape = return_sequences_ ? Shape({shape.dim(0), size}) : Shape({size})});
    for (const int64_t state : form.state_sizes) {
      if (return_state_) types.push_back({.shape = Shape({state})});
    }
    return types;
  }

  std::vector<LayerValue> Build(const BuiltCall& call, LayerTarget& target) const override {
    const Nodes nodes(target.graph);
    CellSite site{call.layer() + "/" + cell_name_, target};
    // ONNX's operators have no masks.
    const bool has_operator = target.mode != ModelMode::kPrediction || call.input().mask.empty();
    if (has_operator) {
      const auto whole = cell_->AddWhole(ChannelsLast(call.input(), nodes), site);
      if (whole && target.mode == ModelMode::kPrediction) return BuildOnnx(call, *whole, nodes);
      if (whole) return BuildWhole(call, *whole, nodes);
    }
    return BuildSteps(call, site, nodes);
  }

 private:
  struct Step {
    std::string inputs;  // the part of the step that depends on its inputs alone
    std::string mask;    // bool [N,1]; empty: the step counts
  };

  bool MasksGiveZeros(const BuiltCall& call) const {
    return zero_output_for_mask_ || call.settings.flags.contains("zero_output_for_mask");
  }

  // Returns the values of a call from its outputs and states [N,size].
  std::vector<LayerValue> ValuesOf(const BuiltCall& call, const std::string& output,
                                   const CellStates& states) const {
    std::vector<LayerValue> values = {{output}};
    if (passes_mask_) values[0].mask = call.input().mask;
    for (const std::string& state : states) {
      if (return_state_) values.push_back({state});
    }
    return values;
  }

  // Adds cohort.Recurrent, which has the batch first.
  std::vector<LayerValue> BuildWhole(const BuiltCall& call, const WholeCell& whole,
                                     const Nodes& nodes) const {
    const ProductPrecisionScope scope(nodes.graph(), whole.precision);
    const bool masked = !call.input().mask.empty();
    const auto squeeze = [&](const std::string& x, int64_t axis) {
      return nodes.Op("Squeeze", {x, nodes.Ints({axis})});
    };
    std::vector<std::string> inputs = {whole.x, whole.w, whole.r, whole.b, call.input().mask};
    for (size_t i = 1; i < call.inputs.size(); ++i) {
      inputs.push_back(nodes.Unsqueeze(call.inputs[i].value, 1));
    }
    while (inputs.back().empty()) inputs.pop_back();
    std::vector<onnx::AttributeProto> attributes = whole.attributes;
    attributes.push_back(StringAttribute("cell", whole.op));
    attributes.push_back(IntAttribute("layout", 1));
    attributes.push_back(IntAttribute("go_backwards", go_backwards_ ? 1 : 0));
    attributes.push_back(IntAttribute("zero_output_for_mask", MasksGiveZeros(call) ? 1 : 0));
    // A masked last step may give something else than the state.
    const bool needs_steps = return_sequences_ || masked;
    const size_t states = return_state_ ? cell_->Form().state_sizes.size() : 0;
    const std::vector<std::string> results = nodes.graph().OpSome(
        "Recurrent", inputs, {needs_steps, !needs_steps || states > 0, states > 1},
        std::move(attributes), kCohortDomain);
    CellStates after;
    for (size_t i = 0; i < states; ++i) after.push_back(squeeze(results[i + 1], 1));
    if (!needs_steps) return ValuesOf(call, squeeze(results[1], 1), after);
    const std::string steps = squeeze(results[0], 2);
    if (return_sequences_) return ValuesOf(call, steps, after);
    const int64_t count = call.shape().dim(0);
    return ValuesOf(call, squeeze(nodes.Slice(steps, 1, count - 1, count), 1), after);
  }

  // Adds ONNX's operator with the steps first, because onnxruntime computes no other order.
  std::vector<LayerValue> BuildOnnx(const BuiltCall& call, const WholeCell& whole,
                                    const Nodes& nodes) const {
    const ProductPrecisionScope scope(nodes.graph(), whole.precision);
    std::vector<std::string> inputs = {nodes.Transpose(whole.x, {1, 0, 2}), whole.w, whole.r,
                                       whole.b, ""};
    for (size_t i = 1; i < call.inputs.size(); ++i) {
      inputs.push_back(nodes.Unsqueeze(call.inputs[i].value, 0));
    }
    while (inputs.back().empty()) inputs.pop_back();
    std::vector<onnx::AttributeProto> attributes = whole.attributes;
    attributes.push_back(StringAttribute("direction", go_backwards_ ? "reverse" : "forward"));
    const size_t states = return_state_ ? cell_->Form().state_sizes.size() : 0;
    std::vector<bool> wanted = {return_sequences_, !return_sequences_ || states > 0};
    if (states > 1) wanted.push_back(true);  // only an LSTM has a third output
    const std::vector<std::string> results =
        nodes.graph().OpSome(whole.op, inputs, wanted, std::move(attributes), "");
    const auto state = [&](const std::string& x) {
      return nodes.Op("Squeeze", {x, nodes.Ints({0})});
    };
    CellStates after;
    for (size_t i = 0; i < states; ++i) after.push_back(state(results[i + 1]));
    if (!return_sequences_) return ValuesOf(call, state(results[1]), after);
    const std::string steps = nodes.Op("Squeeze", {results[0], nodes.Ints({1})});
    const std::string sequences = nodes.Transpose(steps, {1, 0, 2});
    if (!go_backwards_) return ValuesOf(call, sequences, after);
    // Keras has the outputs in the order in which they are computed, ONNX in that of the steps.
    std::vector<int64_t> backwards(static_cast<size_t>(call.shape().dim(0)));
    std::iota(backwards.rbegin(), backwards.rend(), 0);
    return ValuesOf(
        call,
        nodes.graph().Op("Gather", {sequences, nodes.Ints(backwards)}, {IntAttribute("axis", 1)}),
        after);
  }

  // Adds the nodes of every step.
  std::vector<LayerValue> BuildSteps(const BuiltCall& call, CellSite& site,
                                     const Nodes& nodes) const {
    const CellForm form = cell_->Form();
    const LayerTarget& target = site.target;
    CellStates states = StartOf(call, form, nodes);
    if (form.recurrent_dropout > 0 && target.mode == ModelMode::kTraining) {
      const std::string step = nodes.ReduceAway(
          "ReduceSum", nodes.Slice(ChannelsLast(call.input(), nodes), 2, 0, 1), {1});
      const std::string like = nodes.Op("Expand", {step, nodes.Ints({1, form.output_size()})});
      site.recurrent_factor = nodes.DropoutFactor(like, form.recurrent_dropout);
    }
    const bool zeros = MasksGiveZeros(call);
    std::vector<std::string> outputs;
    std::string output = Zeros(form.output_size(), nodes);
    for (const Step& step : StepsOf(call, site, nodes)) {
      CellStates after = cell_->AddStep(step.inputs, states, site);
      const std::string computed = after[form.output];
      if (step.mask.empty()) {
        output = computed;
      } else {
        // In a masked step, the states keep their values. The output is that of the step before or,
        // with `zeros`, zeros.
        const std::string other = zeros ? Zeros(form.output_size(), nodes) : output;
        output = nodes.Op("Where", {step.mask, computed, other});
        for (size_t i = 0; i < after.size(); ++i) {
          after[i] = nodes.Op("Where", {step.mask, after[i], states[i]});
        }
      }
      states = std::move(after);
      if (return_sequences_) outputs.push_back(nodes.Unsqueeze(output, 1));
    }
    return ValuesOf(call, return_sequences_ ? nodes.Concat(outputs, 1) : output, states);
  }

  static std::string Zeros(int64_t size, const Nodes& nodes) {
    return nodes.Floats(std::vector<float>(static_cast<size_t>(size), 0), Shape({1, size}));
  }

  // Returns the states before the first step: what the call gives, or zeros.
  static CellStates StartOf(const BuiltCall& call, const CellForm& form, const Nodes& nodes) {
    CellStates states;
    for (size_t i = 0; i < form.state_sizes.size(); ++i) {
      states.push_back(call.inputs.size() > 1 ? call.inputs[i + 1].value
                                              : Zeros(form.state_sizes[i], nodes));
    }
    return states;
  }

  // Returns the steps in the order in which they are computed.
  std::vector<Step> StepsOf(const BuiltCall& call, const CellSite& site, const Nodes& nodes) const {
    const auto count = static_cast<size_t>(call.shape().dim(0));
    const std::vector<int64_t> single(count, 1);
    const std::string all = cell_->AddInputs(ChannelsLast(call.input(), nodes), site);
    const std::vector<std::string> inputs = nodes.Split(all, 1, single);
    std::vector<std::string> masks;
    if (!call.input().mask.empty()) masks = nodes.Split(call.input().mask, 1, single);
    std::vector<Step> steps;
    for (size_t i = 0; i < count; ++i) {
      const std::string input = nodes.Op("Squeeze", {inputs[i], nodes.Ints({1})});
      steps.push_back({input, masks.empty() ? "" : masks[i]});
    }
    if (go_backwards_) std::reverse(steps.begin(), steps.end());
    return steps;
  }

  std::unique_ptr<RecurrentCell> cell_;
  std::string cell_name_;
  bool return_sequences_ = false;
  bool return_state_ = false;
  bool go_backwards_ = false;
  bool zero_output_for_mask_ = false;
  bool passes_mask_ = false;
};

}  // namespace

void AddRecurrentLayers(std::vector<LayerClass>& classes) {
  for (const char* name : {"SimpleRNN", "LSTM", "GRU", "RNN"}) {
    classes.push_back(
        {name, MakeNamedLayer<Recurrent>, MaskRule::kOwn, LayerKind::kSeveral, "initial_state"});
  }
}

}  // namespace cohort
