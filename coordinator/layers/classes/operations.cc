// Functions that a functional model applies to tensors between its layers. Keras 3 writes each as a
// class, an operation; tf.keras writes TFOpLambda and SlicingOpLambda with the name of a TensorFlow
// function. The arguments of a function are in its call (LayerContext::call).

#include <algorithm>
#include <map>

#include "absl/strings/str_cat.h"
#include "common/base/status.h"
#include "common/cluster/json_text.h"
#include "coordinator/layers/classes/layer_classes.h"
#include "coordinator/layers/layer_reader.h"
#include "coordinator/layers/nodes.h"
#include "nlohmann/json.hpp"

namespace cohort {
namespace {

using nlohmann::json;

// One argument of a function: a tensor of the call, or a number.
struct Operand {
  int tensor = -1;  // the number of the call's input; -1: a number
  double number = 0;
};

// The arguments of a function's only call.
class CallArguments {
 public:
  explicit CallArguments(const std::string& form)
      : form_(json::parse(form, nullptr, /*allow_exceptions=*/false)) {}

  // Returns the argument at a position or under one of its names, or null.
  const json* Find(size_t position, std::initializer_list<const char*> names) const {
    if (!form_.is_object()) return nullptr;
    const json& args = form_.at("args");
    if (position < args.size()) return args[position].is_null() ? nullptr : &args[position];
    for (const char* name : names) {
      const auto found = form_.at("kwargs").find(name);
      if (found != form_.at("kwargs").end() && !found->is_null()) return &*found;
    }
    return nullptr;
  }

 private:
  const json form_;
};

std::optional<Operand> OperandOf(const json& value) {
  if (value.is_number()) return Operand{-1, value.get<double>()};
  const bool is_tensor =
      value.is_object() && value.contains("tensor") && value["tensor"].is_number();
  if (!is_tensor) return std::nullopt;
  return Operand{value["tensor"].get<int>(), 0};
}

// A function of one or two tensors, element by element.
struct ElementFunction {
  const char* op;  // ONNX's operator
  int operands;    // 1 or 2
  bool gives_bool = false;
};

// Returns the functions by the names of Keras 3's classes. Names of TensorFlow's functions are
// mapped to these names below.
const std::map<std::string, ElementFunction>& ElementFunctions() {
  static const auto* const kFunctions = new std::map<std::string, ElementFunction>{
      {"Add", {"Add", 2}},      {"Subtract", {"Sub", 2}},    {"Multiply", {"Mul", 2}},
      {"Divide", {"Div", 2}},   {"TrueDivide", {"Div", 2}},  {"Maximum", {"Max", 2}},
      {"Minimum", {"Min", 2}},  {"Power", {"Pow", 2}},       {"NotEqual", {"Equal", 2, true}},
      {"Relu", {"Relu", 1}},    {"Sigmoid", {"Sigmoid", 1}}, {"Tanh", {"Tanh", 1}},
      {"Exp", {"Exp", 1}},      {"Log", {"Log", 1}},         {"Sqrt", {"Sqrt", 1}},
      {"Absolute", {"Abs", 1}}, {"Abs", {"Abs", 1}},         {"Negative", {"Neg", 1}},
  };
  return *kFunctions;
}

const std::map<std::string, const char*>& Reductions() {
  static const auto* const kReductions =
      new std::map<std::string, const char*>{{"Mean", "ReduceMean"},
                                             {"Sum", "ReduceSum"},
                                             {"Max", "ReduceMax"},
                                             {"Min", "ReduceMin"},
                                             {"Any", "ReduceMax"}};
  return *kReductions;
}

// An activation function that has at most one argument beside the tensor.
struct ActivationOperation {
  const char* activation;
  const char* argument = "";  // Keras 3's name of the argument; "": none
  double otherwise = 0;
  const char* tf_argument = "";  // TensorFlow's name of the argument, if it differs
  double tf_otherwise = 0;       // the default of TensorFlow's function
};

// Returns the activation functions by the names of Keras 3's classes. Functions that
// ElementFunctions() has are not among them.
const std::map<std::string, ActivationOperation>& ActivationOperations() {
  static const auto* const kOperations = new std::map<std::string, ActivationOperation>{
      {"Celu", {"celu", "alpha", 1}},
      {"Elu", {"elu", "alpha", 1, "alpha", 1}},
      {"Gelu", {"gelu", "approximate", 1, "approximate", 0}},
      {"Glu", {"glu", "axis", -1}},
      {"HardShrink", {"hard_shrink", "threshold", 0.5}},
      {"HardSigmoid", {"hard_sigmoid"}},
      {"HardSilu", {"hard_silu"}},
      {"HardTanh", {"hard_tanh"}},
      {"LeakyRelu", {"leaky_relu", "negative_slope", 0.2, "alpha", 0.2}},
      {"LogSigmoid", {"log_sigmoid"}},
      {"LogSoftmax", {"log_softmax", "axis", -1, "axis", -1}},
      {"Relu6", {"relu6"}},
      {"Selu", {"selu"}},
      {"Silu", {"silu"}},
      {"SoftShrink", {"soft_shrink", "threshold", 0.5}},
      {"Softmax", {"softmax", "axis", -1, "axis", -1}},
      {"Softplus", {"softplus"}},
      {"Softsign", {"softsign"}},
      {"SparsePlus", {"sparse_plus"}},
      {"SparseSigmoid", {"sparse_sigmoid"}},
      {"Sparsemax", {"sparsemax", "axis", -1}},
      {"Squareplus", {"squareplus", "b", 4}},
      {"TanhShrink", {"tanh_shrink"}},
      {"Threshold", {"threshold", "threshold", 0}},
  };
  return *kOperations;
}

// The computation of one function. Plan() returns the type of the result for the types of the
// call's inputs, and Build() adds the nodes.
class Function {
 public:
  virtual ~Function() = default;
  virtual absl::StatusOr<TensorType> Plan(const PlannedCall& call) const = 0;
  virtual std::string Build(const BuiltCall& call, const Nodes& nodes) const = 0;
};

class Elementwise : public Function {
 public:
  Elementwise(const ElementFunction& function, std::vector<Operand> operands)
      : function_(function), operands_(std::move(operands)) {}

  absl::StatusOr<TensorType> Plan(const PlannedCall& call) const override {
    std::vector<int64_t> dims(call.shape().dims().begin(), call.shape().dims().end());
    for (const TensorType& input : call.inputs) {
      bool fits = static_cast<size_t>(input.shape.rank()) == dims.size();
      for (size_t i = 0; fits && i < dims.size(); ++i) {
        const int64_t dim = input.shape.dim(static_cast<int>(i));
        fits = dim == dims[i] || dim == 1 || dims[i] == 1;
        dims[i] = std::max(dims[i], dim);
      }
      if (!fits) {
        return WrongInput(call.settings.layer, input.shape,
                          absl::StrCat("they do not fit to ", call.shape().ToString()));
      }
    }
    return TensorType{.dtype = function_.gives_bool ? DType::kBool : DType::kFloat32,
                      .shape = Shape(dims)};
  }

  std::string Build(const BuiltCall& call, const Nodes& nodes) const override {
    std::vector<std::string> values;
    for (const Operand& one : operands_) {
      values.push_back(one.tensor < 0
                           ? nodes.Number(one.number)
                           : ChannelsLast(call.inputs[static_cast<size_t>(one.tensor)], nodes));
    }
    const std::string y = nodes.Op(function_.op, values);
    return function_.gives_bool ? nodes.Op("Not", {y}) : y;
  }

 private:
  const ElementFunction function_;
  const std::vector<Operand> operands_;
};

class Reduction : public Function {
 public:
  Reduction(std::string name, std::vector<int64_t> axes, bool keepdims)
      : name_(std::move(name)), axes_(std::move(axes)), keepdims_(keepdims) {}

  absl::StatusOr<TensorType> Plan(const PlannedCall& call) const override {
    const int rank = call.shape().rank();
    std::vector<int64_t> dims;
    for (const int64_t axis : axes_) {
      if (axis == 0 || axis > rank || axis < -rank) {
        return WrongInput(call.settings.layer, call.shape(),
                          absl::StrCat("its axis ", axis, " is not one of theirs"));
      }
    }
    if (axes_.empty()) {
      return WrongInput(call.settings.layer, call.shape(),
                        "it reduces the batch, too; give its axis");
    }
    for (int i = 0; i < rank; ++i) {
      const bool reduced = std::count(axes_.begin(), axes_.end(), i + 1) > 0 ||
                           std::count(axes_.begin(), axes_.end(), i - rank) > 0;
      if (!reduced) dims.push_back(call.shape().dim(i));
      if (reduced && keepdims_) dims.push_back(1);
    }
    return TensorType{.dtype = name_ == "Any" ? DType::kBool : DType::kFloat32,
                      .shape = Shape(dims)};
  }

  std::string Build(const BuiltCall& call, const Nodes& nodes) const override {
    std::string x = ChannelsLast(call.input(), nodes);
    if (name_ == "Any") x = nodes.Cast(x, DType::kFloat32);
    const char* const op = Reductions().at(name_);
    const std::string y = keepdims_ ? nodes.Reduce(op, x, axes_) : nodes.ReduceAway(op, x, axes_);
    return name_ == "Any" ? nodes.Cast(y, DType::kBool) : y;
  }

 private:
  const std::string name_;
  const std::vector<int64_t> axes_;
  const bool keepdims_;
};

// Selects positions along each axis: a range, or a single position, whose axis is removed.
class GetItem : public Function {
 public:
  struct Part {
    std::optional<int64_t> index = {};
    std::optional<int64_t> start = {}, stop = {}, step = {};
  };

  explicit GetItem(std::vector<Part> parts) : parts_(std::move(parts)) {}

  absl::StatusOr<TensorType> Plan(const PlannedCall& call) const override {
    const Shape& shape = call.shape();
    const bool whole_batch = parts_.empty() || (!parts_[0].index && !parts_[0].start &&
                                                !parts_[0].stop && !parts_[0].step);
    if (!whole_batch || parts_.size() > static_cast<size_t>(shape.rank()) + 1) {
      return WrongInput(
          call.settings.layer, shape,
          "its slice must keep the whole batch, and name no more axes than the input has");
    }
    std::vector<int64_t> dims;
    for (int i = 0; i < shape.rank(); ++i) {
      const Range range = RangeOf(static_cast<size_t>(i) + 1, shape);
      if (range.begin < 0 || range.end > shape.dim(i) || range.begin >= range.end) {
        return WrongInput(
            call.settings.layer, shape,
            absl::StrCat("its slice takes the positions ", range.begin, " to ", range.end,
                         " of axis ", i + 1, ", which has ", shape.dim(i)));
      }
      if (!range.removed) dims.push_back((range.end - range.begin + range.step - 1) / range.step);
    }
    return TensorType{.shape = Shape(dims)};
  }

  std::string Build(const BuiltCall& call, const Nodes& nodes) const override {
    const Shape& shape = call.shape();
    std::vector<int64_t> begins, ends, axes, steps, removed;
    for (int i = 0; i < shape.rank(); ++i) {
      const Range range = RangeOf(static_cast<size_t>(i) + 1, shape);
      begins.push_back(range.begin);
      ends.push_back(range.end);
      steps.push_back(range.step);
      axes.push_back(i + 1);
      if (range.removed) removed.push_back(i + 1);
    }
    const std::string part =
        nodes.Op("Slice", {ChannelsLast(call.input(), nodes), nodes.Ints(begins), nodes.Ints(ends),
                           nodes.Ints(axes), nodes.Ints(steps)});
    return removed.empty() ? part : nodes.Op("Squeeze", {part, nodes.Ints(removed)});
  }

 private:
  struct Range {
    int64_t begin, end, step;
    bool removed;
  };

  Range RangeOf(size_t axis, const Shape& shape) const {
    const int64_t size = shape.dim(static_cast<int>(axis) - 1);
    const Part part = axis < parts_.size() ? parts_[axis] : Part();
    const auto from_end = [&](int64_t position) {
      return position < 0 ? position + size : position;
    };
    if (part.index) return {from_end(*part.index), from_end(*part.index) + 1, 1, true};
    return {std::max<int64_t>(from_end(part.start.value_or(0)), 0),
            std::min(from_end(part.stop.value_or(size)), size), part.step.value_or(1), false};
  }

  const std::vector<Part> parts_;
};

// Returns a start, stop or step; nothing for null.
std::optional<int64_t> PositionOf(const json& slice, const char* key) {
  const auto found = slice.find(key);
  if (found == slice.end() || !found->is_number_integer()) return std::nullopt;
  return found->get<int64_t>();
}

// Reads one entry of an index: a number, Keras 3's __slice__ or tf.keras's {start, stop, step}.
std::optional<GetItem::Part> PartOf(const json& value) {
  if (value.is_number_integer()) return GetItem::Part{.index = value.get<int64_t>()};
  if (!value.is_object()) return std::nullopt;
  const json& slice = value.contains("config") ? value["config"] : value;
  if (!slice.is_object() || !slice.contains("start")) return std::nullopt;
  GetItem::Part part{.start = PositionOf(slice, "start"),
                     .stop = PositionOf(slice, "stop"),
                     .step = PositionOf(slice, "step")};
  if (part.step && *part.step < 1) return std::nullopt;
  return part;
}

// The module that is written for every operation. Keras 3 itself has its operations in several
// modules below keras.src.ops.
constexpr char kModule[] = "keras.src.ops.numpy";

// A layer that applies a function, named by Keras 3's class, or by the key `function` of tf.keras.
class Operation : public Layer {
 public:
  explicit Operation(const std::string& class_name)
      : name_(class_name == "TFOpLambda" || class_name == "SlicingOpLambda" ? "" : class_name) {}

  void Read(LayerReader& reader) override {
    ObjectReader& config = reader.config;
    reader.ElementType();
    const CallArguments arguments(reader.context().call);
    of_tensorflow_ = name_.empty();
    if (of_tensorflow_) ReadFunctionName(config);
    if (name_.empty()) return;
    if (const auto element = ElementFunctions().find(name_); element != ElementFunctions().end()) {
      ReadElementwise(element->second, arguments, config);
    } else if (Reductions().contains(name_)) {
      ReadReduction(arguments, config);
    } else if (const auto found = ActivationOperations().find(name_);
               found != ActivationOperations().end()) {
      ReadActivation(found->second, arguments, config);
    } else {
      ReadGetItem(arguments, config);
    }
  }

  absl::StatusOr<std::vector<TensorType>> Plan(const PlannedCall& call, LayerPlan&) const override {
    ASSIGN_OR_RETURN(TensorType type,
                     activation_ ? ActivatedType(*activation_, call.settings.layer, call.shape())
                                 : function_->Plan(call));
    return std::vector<TensorType>{std::move(type)};
  }

  std::vector<LayerValue> Build(const BuiltCall& call, LayerTarget& target) const override {
    if (activation_) return {Activate(*activation_, call.input(), target)};
    return {{function_->Build(call, Nodes(target.graph))}};
  }

 private:
  // Reads the name of TensorFlow's function, and replaces it by Keras 3's name.
  void ReadFunctionName(ObjectReader& config) {
    static const auto* const kNames =
        new std::map<std::string, std::string>{{"__operators__.add", "Add"},
                                               {"math.add", "Add"},
                                               {"math.subtract", "Subtract"},
                                               {"math.multiply", "Multiply"},
                                               {"math.truediv", "Divide"},
                                               {"math.divide", "Divide"},
                                               {"math.maximum", "Maximum"},
                                               {"math.minimum", "Minimum"},
                                               {"math.pow", "Power"},
                                               {"math.not_equal", "NotEqual"},
                                               {"nn.relu", "Relu"},
                                               {"math.sigmoid", "Sigmoid"},
                                               {"math.tanh", "Tanh"},
                                               {"math.exp", "Exp"},
                                               {"math.log", "Log"},
                                               {"math.sqrt", "Sqrt"},
                                               {"math.abs", "Abs"},
                                               {"math.negative", "Negative"},
                                               {"math.reduce_mean", "Mean"},
                                               {"math.reduce_sum", "Sum"},
                                               {"math.reduce_max", "Max"},
                                               {"math.reduce_min", "Min"},
                                               {"math.reduce_any", "Any"},
                                               {"__operators__.getitem", "GetItem"},
                                               {"nn.elu", "Elu"},
                                               {"nn.gelu", "Gelu"},
                                               {"nn.leaky_relu", "LeakyRelu"},
                                               {"nn.log_softmax", "LogSoftmax"},
                                               {"nn.relu6", "Relu6"},
                                               {"nn.selu", "Selu"},
                                               {"nn.silu", "Silu"},
                                               {"nn.softmax", "Softmax"},
                                               {"math.softplus", "Softplus"},
                                               {"nn.softsign", "Softsign"}};
    std::string function;
    config.Require("function");
    config.String("function", &function);
    const auto found = kNames->find(function);
    if (found != kNames->end()) {
      name_ = found->second;
      return;
    }
    std::vector<std::string> known;
    for (const auto& entry : *kNames) known.push_back(entry.first);
    if (!function.empty()) {
      config.AddError("function", absl::StrCat(UnknownName("function", function, known),
                                               "; a model with other functions comes as ONNX"));
    }
  }

  void ReadElementwise(const ElementFunction& element, const CallArguments& arguments,
                       ObjectReader& config) {
    std::vector<Operand> operands;
    const json* const values[] = {arguments.Find(0, {"x", "x1"}), arguments.Find(1, {"y", "x2"})};
    for (int i = 0; i < element.operands; ++i) {
      const std::optional<Operand> operand =
          values[i] == nullptr ? std::nullopt : OperandOf(*values[i]);
      if (!operand) {
        return config.AddError("name",
                               absl::StrCat("names the operation ", name_, ", but its argument ", i,
                                            " is neither a tensor nor a number"));
      }
      operands.push_back(*operand);
    }
    function_ = std::make_unique<Elementwise>(element, std::move(operands));
  }

  // Reads the argument beside the tensor, from the call or, as Keras 3 writes it, from the config.
  void ReadActivation(const ActivationOperation& operation, const CallArguments& arguments,
                      ObjectReader& config) {
    const json* const x = arguments.Find(0, {"x", "features", "logits"});
    const std::optional<Operand> operand = x == nullptr ? std::nullopt : OperandOf(*x);
    if (!operand || operand->tensor != 0) {
      return config.AddError("name", absl::StrCat("names the operation ", name_,
                                                  ", but its argument 0 is not a tensor"));
    }
    activation_ = Activation{.name = operation.activation};
    const std::string key = operation.argument;
    if (key.empty()) return;
    double value = of_tensorflow_ ? operation.tf_otherwise : operation.otherwise;
    if (key == "approximate") {
      bool flag = value != 0;
      config.Bool(key, &flag);
      value = flag ? 1 : 0;
    } else if (key == "axis") {
      auto axis = static_cast<int64_t>(value);
      config.Int(key, {.min = -static_cast<int64_t>(kRankMax), .max = kRankMax}, &axis);
      value = static_cast<double>(axis);
    } else {
      config.Number(key, {}, &value);
    }
    if (name_ == "Threshold") {
      config.NumberOrOld("default_value", "default", {}, &activation_->arguments["default"]);
    }
    if (const json* const given = arguments.Find(1, {operation.tf_argument})) {
      if (given->is_boolean()) value = given->get<bool>() ? 1 : 0;
      if (given->is_number()) value = given->get<double>();
    }
    activation_->arguments[key] = value;
  }

  void ReadReduction(const CallArguments& arguments, ObjectReader& config) {
    std::vector<int64_t> axes;
    bool keepdims = false;
    config.Ints("axis", {.min = -static_cast<int64_t>(kRankMax), .max = kRankMax}, 1, &axes);
    config.Bool("keepdims", &keepdims);
    if (const json* const axis = arguments.Find(1, {"axis"})) {
      const json list = axis->is_array() ? *axis : json::array({*axis});
      const auto read =
          ReadInts(list, JoinKeys(config.path(), "axis"),
                   {.min = -static_cast<int64_t>(kRankMax), .max = kRankMax}, config.errors());
      if (read) axes = *read;
    }
    if (const json* const keep = arguments.Find(2, {"keepdims"})) keepdims = *keep == true;
    function_ = std::make_unique<Reduction>(name_, std::move(axes), keepdims);
  }

  void ReadGetItem(const CallArguments& arguments, ObjectReader& config) {
    const json* const key = arguments.Find(1, {"slice_spec", "key"});
    std::vector<GetItem::Part> parts;
    const json list =
        key == nullptr ? json::array() : (key->is_array() ? *key : json::array({*key}));
    for (const json& one : list) {
      const std::optional<GetItem::Part> part = PartOf(one);
      if (!part) {
        return config.AddError("name", absl::StrCat("names an index with ", JsonExcerpt(one),
                                                    "; only numbers and ranges are known here"));
      }
      parts.push_back(*part);
    }
    function_ = std::make_unique<GetItem>(std::move(parts));
  }

  std::string name_;
  bool of_tensorflow_ = false;  // true: a TensorFlow function, whose defaults are TensorFlow's
  // The function is one of these two.
  std::optional<Activation> activation_;
  std::unique_ptr<Function> function_;
};

}  // namespace

void AddOperations(std::vector<LayerClass>& classes) {
  const auto add = [&](const char* name, const char* module) {
    classes.push_back(
        {name, MakeNamedLayer<Operation>, MaskRule::kStop, LayerKind::kOperation, "", module});
  };
  for (const auto& entry : ElementFunctions()) add(entry.first.c_str(), kModule);
  for (const auto& entry : Reductions()) add(entry.first.c_str(), kModule);
  for (const auto& entry : ActivationOperations()) add(entry.first.c_str(), kModule);
  add("GetItem", kModule);
  add("TFOpLambda", "");
  add("SlicingOpLambda", "");
}

}  // namespace cohort
