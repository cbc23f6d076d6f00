#include "coordinator/layers/classes/recurrent_cell.h"

#include <algorithm>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/base/status.h"
#include "common/cluster/json_text.h"
#include "common/tensor/initializer.h"
#include "coordinator/layers/layer_class.h"
#include "coordinator/layers/nodes.h"
#include "nlohmann/json.hpp"

namespace cohort {
namespace {

using nlohmann::json;

// A function of gates as ONNX names it. HardSigmoid and Affine have alpha and beta.
struct GateFunctionName {
  const char* name;
  std::optional<float> alpha = std::nullopt;
  std::optional<float> beta = std::nullopt;
};

// Returns the function of ONNX's operators that computes the activation, or nothing.
std::optional<GateFunctionName> OnnxFunction(const Activation& activation) {
  if (!activation.arguments.empty()) return std::nullopt;
  const std::string& name = activation.name;
  if (name == "tanh") return GateFunctionName{"Tanh"};
  if (name == "sigmoid") return GateFunctionName{"Sigmoid"};
  if (name == "relu") return GateFunctionName{"Relu"};
  if (name == "linear") return GateFunctionName{"Affine", 1.0f, 0.0f};
  if (name != "hard_sigmoid") return std::nullopt;
  return GateFunctionName{"HardSigmoid", activation.keras.IsKeras2() ? 0.2f : 1.0f / 6, 0.5f};
}

// Appends the attributes that name the functions of gates. Returns false, and appends nothing, if
// ONNX lacks one of them.
bool AddFunctions(const std::vector<const Activation*>& functions,
                  std::vector<onnx::AttributeProto>& attributes) {
  onnx::AttributeProto names, alphas, betas;
  names.set_name("activations");
  names.set_type(onnx::AttributeProto::STRINGS);
  alphas.set_name("activation_alpha");
  alphas.set_type(onnx::AttributeProto::FLOATS);
  betas.set_name("activation_beta");
  betas.set_type(onnx::AttributeProto::FLOATS);
  for (const Activation* activation : functions) {
    const std::optional<GateFunctionName> function = OnnxFunction(*activation);
    if (!function) return false;
    names.add_strings(function->name);
    if (function->alpha) alphas.add_floats(*function->alpha);
    if (function->beta) betas.add_floats(*function->beta);
  }
  attributes.push_back(names);
  if (alphas.floats_size() > 0) attributes.push_back(alphas);
  if (betas.floats_size() > 0) attributes.push_back(betas);
  return true;
}

// The form of a cell for an operator of ONNX, beside its variables.
struct OnnxForm {
  const char* op;
  std::vector<size_t> gates;  // for each gate of ONNX, its number in Keras's order
  std::vector<const Activation*> functions;
  // True: a GRU multiplies by the reset gate behind the product.
  bool linear_before_reset = false;
};

// Base of the three cells with kernels: SimpleRNN, LSTM and GRU.
class KernelCell : public RecurrentCell {
 public:
  // `gates` is the number of parts of the kernels.
  explicit KernelCell(int64_t gates) : gates_(gates) {}

  void Read(LayerReader& reader) override {
    ObjectReader& config = reader.config;
    config.Require("units");
    config.Int("units", {.min = 1, .max = kDimMax / 4}, &units_);
    reader.ReadActivation(&activation_);
    config.Bool("use_bias", &use_bias_);
    reader.Weight("kernel", &kernel_);
    reader.Weight("recurrent", &recurrent_);
    reader.Weight("bias", &bias_);
    constexpr NumberRange kRates = {.min = 0, .max = 1, .max_excluded = true};
    config.Number("dropout", kRates, &dropout_);
    config.Number("recurrent_dropout", kRates, &recurrent_dropout_);
    config.Ignore("implementation");
    config.Ignore("seed");
    precision_ = reader.precision();
  }

  CellForm Form() const override { return {{units_}, 0, recurrent_dropout_}; }

  absl::Status Plan(const PlannedCall& call, const std::string& path, int64_t inputs,
                    LayerPlan& plan) const override {
    const int64_t columns = gates_ * units_;
    if (inputs > kElementsMax / columns || units_ > kElementsMax / columns) {
      return WrongInput(call.settings.layer, call.shape(),
                        "its kernel would have more than 2^31 elements");
    }
    RETURN_IF_ERROR(plan.Add(call, path + "/kernel", Shape({inputs, columns}), kernel_).status());
    RETURN_IF_ERROR(
        plan.Add(call, path + "/recurrent_kernel", Shape({units_, columns}), recurrent_).status());
    if (!use_bias_) return absl::OkStatus();
    return PlanBias(call, path + "/bias", plan);
  }

  // The operators drop no recurrent inputs.
  std::optional<WholeCell> AddWhole(const std::string& x, const CellSite& site) const override {
    if (recurrent_dropout_ > 0 && site.target.mode == ModelMode::kTraining) return std::nullopt;
    const Nodes nodes(site.target.graph);
    const OnnxForm form = Onnx();
    WholeCell whole{.op = form.op, .precision = precision_};
    if (!AddFunctions(form.functions, whole.attributes)) return std::nullopt;
    if (form.linear_before_reset) {
      whole.attributes.push_back(IntAttribute("linear_before_reset", 1));
    }
    whole.attributes.push_back(IntAttribute("hidden_size", units_));
    whole.x = Dropped(x, site, nodes);
    const auto weights = [&](const char* name) {
      const std::string ordered = InOrder(site.Variable(name), 1, form.gates, nodes);
      return nodes.Unsqueeze(nodes.Transpose(ordered, {1, 0}), 0);
    };
    whole.w = weights("kernel");
    whole.r = weights("recurrent_kernel");
    if (use_bias_) whole.b = WholeBias(form, site, nodes);
    return whole;
  }

  std::string AddInputs(const std::string& x, const CellSite& site) const override {
    const Nodes nodes(site.target.graph);
    const ProductPrecisionScope scope(site.target.graph, precision_);
    const std::string y = nodes.Op("MatMul", {Dropped(x, site, nodes), site.Variable("kernel")});
    return use_bias_ ? nodes.Add(y, InputBias(site, nodes)) : y;
  }

  CellStates AddStep(const std::string& inputs, const CellStates& states,
                     const CellSite& site) const final {
    const ProductPrecisionScope scope(site.target.graph, precision_);
    return Step(inputs, states, site);
  }

 protected:
  virtual CellStates Step(const std::string& inputs, const CellStates& states,
                          const CellSite& site) const = 0;
  virtual absl::Status PlanBias(const PlannedCall& call, const std::string& path,
                                LayerPlan& plan) const {
    return plan.Add(call, path, Shape({gates_ * units_}), bias_).status();
  }
  virtual std::string InputBias(const CellSite& site, const Nodes&) const {
    return site.Variable("bias");
  }
  virtual OnnxForm Onnx() const = 0;
  // Returns the biases of the inputs and those of the recurrent inputs, [1,2 * gates * units], of
  // which only the former are variables.
  virtual std::string WholeBias(const OnnxForm& form, const CellSite& site,
                                const Nodes& nodes) const {
    const int64_t size = gates_ * units_;
    const std::string none =
        nodes.Floats(std::vector<float>(static_cast<size_t>(size), 0), Shape({size}));
    const std::string bias = InOrder(site.Variable("bias"), 0, form.gates, nodes);
    return nodes.Reshape(nodes.Concat({bias, none}, 0), {1, 2 * size});
  }

  // Returns the state as the products of a step take it: after recurrent dropout.
  static std::string Recurrent(const std::string& state, const CellSite& site, const Nodes& nodes) {
    return site.recurrent_factor.empty() ? state : nodes.Mul(state, site.recurrent_factor);
  }

  std::string Apply(const Activation& activation, const std::string& x,
                    const CellSite& site) const {
    const LayerValue value{.value = x, .type = {.shape = Shape({units_})}};
    return Activate(activation, value, site.target).value;
  }

  // Cuts [N,gates * units] into the gates.
  std::vector<std::string> Gates(const std::string& x, const Nodes& nodes) const {
    return nodes.Split(x, 1, std::vector<int64_t>(static_cast<size_t>(gates_), units_));
  }

  // Puts the gates along an axis in ONNX's order.
  std::string InOrder(const std::string& x, int64_t axis, const std::vector<size_t>& gates,
                      const Nodes& nodes) const {
    if (std::is_sorted(gates.begin(), gates.end())) return x;
    const std::vector<std::string> parts =
        nodes.Split(x, axis, std::vector<int64_t>(gates.size(), units_));
    std::vector<std::string> ordered;
    for (const size_t gate : gates) ordered.push_back(parts[gate]);
    return nodes.Concat(ordered, axis);
  }

  int64_t units() const { return units_; }
  const Activation& activation() const { return activation_; }
  bool use_bias() const { return use_bias_; }
  WeightRules& bias() { return bias_; }
  const WeightRules& bias() const { return bias_; }

 private:
  // Drops inputs in training, the same at all steps.
  std::string Dropped(const std::string& x, const CellSite& site, const Nodes& nodes) const {
    if (dropout_ == 0 || site.target.mode != ModelMode::kTraining) return x;
    const std::string step = nodes.Slice(x, -2, 0, 1);
    return nodes.Mul(x, nodes.DropoutFactor(step, dropout_));
  }

  const int64_t gates_;
  int64_t units_ = 1;
  Activation activation_{.name = "tanh"};
  bool use_bias_ = true;
  double dropout_ = 0;
  double recurrent_dropout_ = 0;
  ProductPrecision precision_ = ProductPrecision::kFloat32;
  WeightRules kernel_{{.class_name = "GlorotUniform"}};
  WeightRules recurrent_{{.class_name = "Orthogonal", .a = 1}};
  WeightRules bias_{{.class_name = "Zeros"}};
};

class SimpleRNNCell : public KernelCell {
 public:
  SimpleRNNCell() : KernelCell(1) {}

 protected:
  CellStates Step(const std::string& inputs, const CellStates& states,
                  const CellSite& site) const override {
    const Nodes nodes(site.target.graph);
    const std::string h =
        nodes.Op("MatMul", {Recurrent(states[0], site, nodes), site.Variable("recurrent_kernel")});
    return {Apply(activation(), nodes.Add(inputs, h), site)};
  }
  OnnxForm Onnx() const override { return {"RNN", {0}, {&activation()}}; }
};

// The gates of Keras's LSTM are in the order input, forget, cell, output.
class LSTMCell : public KernelCell {
 public:
  LSTMCell() : KernelCell(4) {}

  void Read(LayerReader& reader) override {
    KernelCell::Read(reader);
    reader.ReadActivation("recurrent_activation", &recurrent_activation_);
    reader.config.Bool("unit_forget_bias", &unit_forget_bias_);
  }

  // The states are the output and the cell's memory.
  CellForm Form() const override {
    CellForm form = KernelCell::Form();
    form.state_sizes.push_back(units());
    return form;
  }

 protected:
  CellStates Step(const std::string& inputs, const CellStates& states,
                  const CellSite& site) const override {
    const Nodes nodes(site.target.graph);
    const std::string h =
        nodes.Op("MatMul", {Recurrent(states[0], site, nodes), site.Variable("recurrent_kernel")});
    const std::vector<std::string> gates = Gates(nodes.Add(inputs, h), nodes);
    const auto gate = [&](size_t i) { return Apply(recurrent_activation_, gates[i], site); };
    const std::string added = nodes.Mul(gate(0), Apply(activation(), gates[2], site));
    const std::string c = nodes.Add(nodes.Mul(gate(1), states[1]), added);
    return {nodes.Mul(gate(3), Apply(activation(), c, site)), c};
  }
  absl::Status PlanBias(const PlannedCall& call, const std::string& path,
                        LayerPlan& plan) const override {
    ASSIGN_OR_RETURN(VariableSpec* const variable,
                     plan.Add(call, path, Shape({4 * units()}), bias()));
    // With unit_forget_bias, the bias of the forget gate begins at 1.
    if (unit_forget_bias_ && !absl::StartsWith(variable->initializer.op(), kUnitForget)) {
      variable->initializer.set_op(absl::StrCat(kUnitForget, variable->initializer.op()));
    }
    return absl::OkStatus();
  }
  // ONNX's order is input, output, forget, cell.
  OnnxForm Onnx() const override {
    return {"LSTM", {0, 3, 1, 2}, {&recurrent_activation_, &activation(), &activation()}};
  }

 private:
  Activation recurrent_activation_{.name = "sigmoid"};
  bool unit_forget_bias_ = true;
};

// The gates of Keras's GRU are in the order update, reset, candidate.
class GRUCell : public KernelCell {
 public:
  GRUCell() : KernelCell(3) {}

  void Read(LayerReader& reader) override {
    KernelCell::Read(reader);
    reader.ReadActivation("recurrent_activation", &recurrent_activation_);
    // Keras before 2.1 had no key `reset_after`, and computed the form that the value false means.
    if (reader.Keras() < KerasVersion{2, 1}) reset_after_ = false;
    reader.config.Bool("reset_after", &reset_after_);
  }

 protected:
  CellStates Step(const std::string& inputs, const CellStates& states,
                  const CellSite& site) const override {
    const Nodes nodes(site.target.graph);
    const std::string kernel = site.Variable("recurrent_kernel");
    const std::string before = Recurrent(states[0], site, nodes);
    const std::vector<std::string> x = Gates(inputs, nodes);
    std::vector<std::string> h;
    if (reset_after_) {
      std::string product = nodes.Op("MatMul", {before, kernel});
      if (use_bias()) product = nodes.Add(product, BiasRow(1, site, nodes));
      h = Gates(product, nodes);
    } else {
      const std::string gates = nodes.Slice(kernel, 1, 0, 2 * units());
      h = nodes.Split(nodes.Op("MatMul", {before, gates}), 1, {units(), units()});
    }
    const std::string update = Apply(recurrent_activation_, nodes.Add(x[0], h[0]), site);
    const std::string reset = Apply(recurrent_activation_, nodes.Add(x[1], h[1]), site);
    std::string recalled;
    if (reset_after_) {
      recalled = nodes.Mul(reset, h[2]);
    } else {
      const std::string candidate = nodes.Slice(kernel, 1, 2 * units(), 3 * units());
      recalled = nodes.Op("MatMul", {nodes.Mul(reset, before), candidate});
    }
    const std::string candidate = Apply(activation(), nodes.Add(x[2], recalled), site);
    const std::string kept = nodes.Mul(update, states[0]);
    const std::string rest = nodes.Sub(nodes.Number(1), update);
    return {nodes.Add(kept, nodes.Mul(rest, candidate))};
  }
  absl::Status PlanBias(const PlannedCall& call, const std::string& path,
                        LayerPlan& plan) const override {
    const Shape shape = reset_after_ ? Shape({2, 3 * units()}) : Shape({3 * units()});
    return plan.Add(call, path, shape, bias()).status();
  }
  std::string InputBias(const CellSite& site, const Nodes& nodes) const override {
    return reset_after_ ? BiasRow(0, site, nodes) : site.Variable("bias");
  }
  OnnxForm Onnx() const override {
    return {"GRU", {0, 1, 2}, {&recurrent_activation_, &activation()}, reset_after_};
  }
  std::string WholeBias(const OnnxForm& form, const CellSite& site,
                        const Nodes& nodes) const override {
    if (!reset_after_) return KernelCell::WholeBias(form, site, nodes);
    return nodes.Reshape(site.Variable("bias"), {1, 6 * units()});
  }

 private:
  // Returns row `row` of the bias: 0 for the inputs, 1 for the recurrent inputs.
  std::string BiasRow(int64_t row, const CellSite& site, const Nodes& nodes) const {
    return nodes.Reshape(nodes.Slice(site.Variable("bias"), 0, row, row + 1), {3 * units()});
  }

  Activation recurrent_activation_{.name = "sigmoid"};
  bool reset_after_ = true;
};

// A stack of cells, each of which takes the output of the cell before.
class StackedCells : public RecurrentCell {
 public:
  void Read(LayerReader& reader) override {
    const json* const cells = reader.config.Require("cells");
    if (cells == nullptr) return;
    ReadList(*cells, JoinKeys(reader.config.path(), "cells"), reader);
  }

  void ReadList(const json& cells, const std::string& path, LayerReader& reader) {
    constexpr size_t kCellsMax = 100;
    if (!cells.is_array() || cells.empty() || cells.size() > kCellsMax) {
      return reader.config.errors().Add(
          path, absl::StrCat("is ", JsonExcerpt(cells), "; it must be a list of 1 to ", kCellsMax,
                             " cells"));
    }
    nlohmann::ordered_json record = nlohmann::ordered_json::array();
    for (size_t i = 0; i < cells.size(); ++i) {
      std::string name;
      nlohmann::ordered_json& form = record.emplace_back();
      std::unique_ptr<RecurrentCell> cell =
          ReadCell({JoinKeys(path, absl::StrCat(i)), reader.config.errors(), &cells[i], &form},
                   reader.context(), &name);
      if (cell == nullptr) continue;
      cells_.push_back(std::move(cell));
      names_.push_back(name);
    }
    reader.config.RecordAs("cells", record);
  }

  CellForm Form() const override {
    CellForm form;
    for (const auto& cell : cells_) {
      form.output = form.state_sizes.size();
      const CellForm inner = cell->Form();
      form.state_sizes.insert(form.state_sizes.end(), inner.state_sizes.begin(),
                              inner.state_sizes.end());
    }
    return form;
  }

  absl::Status Plan(const PlannedCall& call, const std::string& path, int64_t inputs,
                    LayerPlan& plan) const override {
    int64_t size = inputs;
    for (size_t i = 0; i < cells_.size(); ++i) {
      RETURN_IF_ERROR(cells_[i]->Plan(call, absl::StrCat(path, "/", names_[i]), size, plan));
      size = cells_[i]->Form().output_size();
    }
    return absl::OkStatus();
  }

  // Dropout between the cells is part of each step, so each step is computed by itself.
  std::optional<WholeCell> AddWhole(const std::string&, const CellSite&) const override {
    return std::nullopt;
  }
  std::string AddInputs(const std::string& x, const CellSite& site) const override {
    return cells_[0]->AddInputs(x, SiteOf(0, site));
  }

  CellStates AddStep(const std::string& inputs, const CellStates& states,
                     const CellSite& site) const override {
    CellStates after;
    std::string x = inputs;
    size_t first = 0;
    for (size_t i = 0; i < cells_.size(); ++i) {
      const CellSite inner = SiteOf(i, site);
      const CellForm form = cells_[i]->Form();
      const size_t count = form.state_sizes.size();
      const CellStates own(states.begin() + static_cast<std::ptrdiff_t>(first),
                           states.begin() + static_cast<std::ptrdiff_t>(first + count));
      first += count;
      if (i > 0) x = cells_[i]->AddInputs(x, inner);
      CellStates moved = cells_[i]->AddStep(x, own, inner);
      x = moved[form.output];
      after.insert(after.end(), moved.begin(), moved.end());
    }
    return after;
  }

 private:
  CellSite SiteOf(size_t cell, const CellSite& site) const {
    return {absl::StrCat(site.path, "/", names_[cell]), site.target};
  }

  std::vector<std::unique_ptr<RecurrentCell>> cells_;
  std::vector<std::string> names_;
};

}  // namespace

std::unique_ptr<RecurrentCell> MakeCell(const std::string& class_name) {
  if (class_name == "SimpleRNN" || class_name == "SimpleRNNCell") {
    return std::make_unique<SimpleRNNCell>();
  }
  if (class_name == "LSTM" || class_name == "LSTMCell") return std::make_unique<LSTMCell>();
  if (class_name == "GRU" || class_name == "GRUCell") return std::make_unique<GRUCell>();
  if (class_name == "StackedRNNCells") return std::make_unique<StackedCells>();
  return nullptr;
}

std::unique_ptr<RecurrentCell> ReadCell(const JsonPlace& place, const LayerContext& context,
                                        std::string* name) {
  const ClassForm form = ReadClassForm(place, "");
  if (!form.ok()) return nullptr;
  std::unique_ptr<RecurrentCell> cell = MakeCell(form.class_name);
  if (cell == nullptr) {
    place.errors.Add(place.path,
                     UnknownName("cell", form.class_name,
                                 {"SimpleRNNCell", "LSTMCell", "GRUCell", "StackedRNNCells"}));
    return nullptr;
  }
  ObjectReader config = form.Config(form.class_name);
  LayerReader reader(config, context);
  *name = "cell";
  reader.Name(name);
  reader.FloatPolicy();
  config.OnlyNeutral("trainable", true);
  cell->Read(reader);
  config.Finish();
  return cell;
}

}  // namespace cohort
