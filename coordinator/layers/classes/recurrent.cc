// Recurrent layers: SimpleRNN, LSTM and GRU, and RNN of a cell (recurrent_cell.h). A graph has the
// nodes of every step.

#include <algorithm>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "common/base/status.h"
#include "coordinator/layers/classes/layer_classes.h"
#include "coordinator/layers/classes/recurrent_cell.h"
#include "coordinator/layers/layer_reader.h"
#include "coordinator/layers/nodes.h"

namespace cohort {
namespace {

// Upper bound of the steps, each of which has nodes of its own.
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
    reader.OnlyFloat32();
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
    config.OnlyNeutral("stateful", false);
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
    const CellForm form = cell_->Form();
    CellSite site{call.layer() + "/" + cell_name_, target};
    CellStates states = StartOf(call, form, nodes);
    if (form.recurrent_dropout > 0 && target.mode == ModelMode::kTraining) {
      const std::string step = nodes.ReduceAway(
          "ReduceSum", nodes.Slice(ChannelsLast(call.input(), nodes), 2, 0, 1), {1});
      const std::string like = nodes.Op("Expand", {step, nodes.Ints({1, form.output_size()})});
      site.recurrent_factor = nodes.DropoutFactor(like, form.recurrent_dropout);
    }
    const bool zeros =
        zero_output_for_mask_ || call.settings.flags.contains("zero_output_for_mask");
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
    std::vector<LayerValue> values = {{return_sequences_ ? nodes.Concat(outputs, 1) : output}};
    if (passes_mask_) values[0].mask = call.input().mask;
    for (const std::string& state : states) {
      if (return_state_) values.push_back({state});
    }
    return values;
  }

 private:
  struct Step {
    std::string inputs;  // the part of the step that depends on its inputs alone
    std::string mask;    // bool [N,1]; empty: the step counts
  };

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
