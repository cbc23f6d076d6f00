#include "common/runtime/kernels/recurrent_shape.h"

#include <algorithm>
#include <optional>

#include "absl/strings/ascii.h"
#include "absl/strings/str_join.h"

namespace cohort {

namespace {

// A function's name in ONNX, and its attributes' values in ONNX's operator of that name. A function
// without an attribute has no default of it.
struct NamedFunction {
  const char* name;
  GateFunction function;
  std::optional<double> alpha = std::nullopt;
  std::optional<double> beta = std::nullopt;
};

const std::vector<NamedFunction>& Functions() {
  static const auto& functions =
      *new std::vector<NamedFunction>{{"Sigmoid", GateFunction::kSigmoid},
                                      {"Tanh", GateFunction::kTanh},
                                      {"Relu", GateFunction::kRelu},
                                      {"Affine", GateFunction::kAffine, 1, 0},
                                      {"LeakyRelu", GateFunction::kLeakyRelu, 0.01},
                                      {"ThresholdedRelu", GateFunction::kThresholdedRelu, 1},
                                      {"ScaledTanh", GateFunction::kScaledTanh, 1, 1},
                                      {"HardSigmoid", GateFunction::kHardSigmoid, 0.2, 0.5},
                                      {"Elu", GateFunction::kElu, 1},
                                      {"Softsign", GateFunction::kSoftsign},
                                      {"Softplus", GateFunction::kSoftplus}};
  return functions;
}

// Returns the function of this name, in upper or lower case, or null.
const NamedFunction* FindFunction(const std::string& name) {
  for (const NamedFunction& each : Functions()) {
    if (absl::AsciiStrToLower(name) == absl::AsciiStrToLower(each.name)) return &each;
  }
  return nullptr;
}

// The values of a list attribute that the functions take one after another. Thread-compatible.
class FunctionValues {
 public:
  FunctionValues(AttributeReader& reader, const char* name) {
    if (const onnx::AttributeProto* list = reader.Raw(name)) {
      values_.assign(list->floats().begin(), list->floats().end());
    }
  }

  // Returns the next value, or `otherwise` if there is none; a function without an attribute takes
  // none.
  double Next(const std::optional<double>& otherwise) {
    if (!otherwise) return 0;
    return next_ < values_.size() ? static_cast<double>(values_[next_++]) : *otherwise;
  }

 private:
  std::vector<float> values_;
  size_t next_ = 0;
};

// Returns the names of the functions of one direction where the node does not name them.
std::vector<std::string> DefaultFunctions(RecurrentCell cell) {
  if (cell == RecurrentCell::kLstm) return {"Sigmoid", "Tanh", "Tanh"};
  if (cell == RecurrentCell::kGru) return {"Sigmoid", "Tanh"};
  return {"Tanh"};
}

void ReadFunctions(AttributeReader& reader, RecurrentParameters& parameters) {
  const std::vector<std::string> defaults = DefaultFunctions(parameters.cell);
  const size_t count = defaults.size() * static_cast<size_t>(parameters.Directions());
  std::vector<std::string> names;
  if (const onnx::AttributeProto* list = reader.Raw("activations")) {
    names.assign(list->strings().begin(), list->strings().end());
  } else {
    // Both directions have the same functions by default.
    while (names.size() < count) names.push_back(defaults[names.size() % defaults.size()]);
  }
  if (names.size() != count) {
    reader.Fail(absl::StrCat("activations has ", names.size(), " names, not ", count));
    return;
  }
  FunctionValues alphas(reader, "activation_alpha");
  FunctionValues betas(reader, "activation_beta");
  for (const std::string& name : names) {
    const NamedFunction* const found = FindFunction(name);
    if (found == nullptr) {
      std::vector<std::string> known;
      for (const NamedFunction& each : Functions()) known.emplace_back(each.name);
      reader.Fail(
          absl::StrCat("unknown activation '", name, "'; use one of ", absl::StrJoin(known, ", ")));
      return;
    }
    parameters.gates.push_back(
        {found->function, alphas.Next(found->alpha), betas.Next(found->beta)});
  }
}

void ReadDirection(AttributeReader& reader, RecurrentParameters& parameters) {
  const std::string direction = reader.String("direction", "forward");
  if (direction == "reverse") {
    parameters.direction = RecurrentDirection::kReverse;
  } else if (direction == "bidirectional") {
    parameters.direction = RecurrentDirection::kBoth;
  } else if (direction != "forward") {
    reader.Fail(
        absl::StrCat("unknown direction '", direction, "'; use forward, reverse or bidirectional"));
  }
}

RecurrentParameters ParseCell(AttributeReader& reader, RecurrentCell cell) {
  RecurrentParameters parameters;
  parameters.cell = cell;
  ReadDirection(reader, parameters);
  ReadFunctions(reader, parameters);
  parameters.hidden = reader.Int("hidden_size", 0);
  parameters.batch_first = reader.Flag("layout", false);
  // The clip of gates would change their slopes, too.
  if (reader.Raw("clip") != nullptr) reader.Fail("clip is not supported");
  if (cell == RecurrentCell::kLstm && reader.Flag("input_forget", false)) {
    reader.Fail("input_forget is not supported");
  }
  if (cell == RecurrentCell::kGru) {
    parameters.linear_before_reset = reader.Flag("linear_before_reset", false);
  }
  return parameters;
}

absl::Status RequireShape(const char* name, const Tensor& tensor, const Shape& shape) {
  if (tensor.shape() == shape) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(name, " is ", tensor.TypeString(), ", not of the shape ", shape.ToString()));
}

// Checks an optional input of the type of x.
absl::Status CheckOptional(const char* name, const Tensor& tensor, const Tensor& x,
                           const Shape& shape) {
  if (!tensor.has_value()) return absl::OkStatus();
  RETURN_IF_ERROR(RequireSameType(x, tensor));
  return RequireShape(name, tensor, shape);
}

// Checks the mask and the lengths, which are optional.
absl::Status CheckMask(const RecurrentInputs& inputs, const RecurrentShape& shape) {
  if (inputs.mask.has_value()) {
    RETURN_IF_ERROR(RequireType(inputs.mask, DType::kBool));
    RETURN_IF_ERROR(RequireShape(
        "mask", inputs.mask,
        shape.batch_first ? Shape{shape.batch, shape.steps} : Shape{shape.steps, shape.batch}));
  }
  if (!inputs.lengths.has_value()) return absl::OkStatus();
  RETURN_IF_ERROR(RequireType(inputs.lengths, DType::kInt32));
  RETURN_IF_ERROR(RequireShape("sequence_lens", inputs.lengths, Shape{shape.batch}));
  for (const int32_t length : inputs.lengths.span<int32_t>()) {
    if (length < 0 || length > shape.steps) {
      return absl::InvalidArgumentError(
          absl::StrCat("sequence_lens has ", length, ", which is not in [0, ", shape.steps, "]"));
    }
  }
  return absl::OkStatus();
}

}  // namespace

double Gate::Value(double z) const {
  switch (function) {
    case GateFunction::kSigmoid:
      return 1 / (1 + std::exp(-z));
    case GateFunction::kTanh:
      return std::tanh(z);
    case GateFunction::kRelu:
      return z < 0 ? 0 : z;
    case GateFunction::kAffine:
      return alpha * z + beta;
    case GateFunction::kLeakyRelu:
      return z < 0 ? alpha * z : z;
    case GateFunction::kThresholdedRelu:
      return z > alpha ? z : 0;
    case GateFunction::kScaledTanh:
      return alpha * std::tanh(beta * z);
    case GateFunction::kHardSigmoid:
      return std::min(std::max(alpha * z + beta, 0.0), 1.0);
    case GateFunction::kElu:
      return z < 0 ? alpha * std::expm1(z) : z;
    case GateFunction::kSoftsign:
      return z / (1 + std::abs(z));
    case GateFunction::kSoftplus:
      return std::max(z, 0.0) + std::log1p(std::exp(-std::abs(z)));
  }
  return z;
}

double Gate::Slope(double y) const {
  switch (function) {
    case GateFunction::kSigmoid:
      return y * (1 - y);
    case GateFunction::kTanh:
      return 1 - y * y;
    case GateFunction::kRelu:
      return y > 0 ? 1 : 0;
    case GateFunction::kAffine:
      return alpha;
    case GateFunction::kLeakyRelu:
      return y < 0 ? alpha : 1;
    case GateFunction::kThresholdedRelu:
      return y != 0 ? 1 : 0;
    case GateFunction::kScaledTanh:
      return alpha == 0 ? 0 : alpha * beta * (1 - y / alpha * (y / alpha));
    case GateFunction::kHardSigmoid:
      return y > 0 && y < 1 ? alpha : 0;
    case GateFunction::kElu:
      return y < 0 ? y + alpha : 1;
    case GateFunction::kSoftsign:
      return (1 - std::abs(y)) * (1 - std::abs(y));
    case GateFunction::kSoftplus:
      return -std::expm1(-y);
  }
  return 1;
}

RecurrentParameters ParseLstm(AttributeReader& reader) {
  return ParseCell(reader, RecurrentCell::kLstm);
}
RecurrentParameters ParseGru(AttributeReader& reader) {
  return ParseCell(reader, RecurrentCell::kGru);
}
RecurrentParameters ParseRnn(AttributeReader& reader) {
  return ParseCell(reader, RecurrentCell::kRnn);
}

RecurrentParameters ParseRecurrent(AttributeReader& reader) {
  const std::string cell = reader.String("cell", "");
  if (cell != "LSTM" && cell != "GRU" && cell != "RNN") {
    reader.Fail(absl::StrCat("unknown cell '", cell, "'; use LSTM, GRU or RNN"));
  }
  RecurrentParameters parameters = ParseCell(reader, cell == "GRU"   ? RecurrentCell::kGru
                                                     : cell == "RNN" ? RecurrentCell::kRnn
                                                                     : RecurrentCell::kLstm);
  parameters.onnx = false;
  parameters.masked_zeros = reader.Flag("zero_output_for_mask", false);
  parameters.go_backwards = reader.Flag("go_backwards", false);
  if (parameters.cell != RecurrentCell::kGru && reader.Flag("linear_before_reset", false)) {
    reader.Fail("only a GRU has linear_before_reset");
  }
  if (parameters.go_backwards && parameters.direction != RecurrentDirection::kForward) {
    reader.Fail("go_backwards needs the direction forward");
  }
  return parameters;
}

RecurrentInputs InputsOf(const KernelContext& context, const RecurrentParameters& parameters) {
  RecurrentInputs inputs;
  inputs.x = context.input(0);
  inputs.w = context.input(1);
  inputs.r = context.input(2);
  inputs.b = InputOr(context, 3);
  (parameters.onnx ? inputs.lengths : inputs.mask) = InputOr(context, 4);
  if (!parameters.onnx) inputs.lengths = InputOr(context, kLengths);
  inputs.initial_h = InputOr(context, 5);
  inputs.initial_c = InputOr(context, 6);
  inputs.peepholes = InputOr(context, 7);
  return inputs;
}

absl::StatusOr<RecurrentShape> ResolveRecurrent(const RecurrentInputs& inputs,
                                                const RecurrentParameters& parameters) {
  const Tensor& x = inputs.x;
  RETURN_IF_ERROR(RequireRank(x, 3));
  RETURN_IF_ERROR(RequireRank(inputs.r, 3));
  RETURN_IF_ERROR(RequireSameType(x, inputs.w));
  RETURN_IF_ERROR(RequireSameType(x, inputs.r));
  RecurrentShape shape;
  shape.batch_first = parameters.batch_first;
  shape.steps = x.shape().dim(shape.batch_first ? 1 : 0);
  shape.batch = x.shape().dim(shape.batch_first ? 0 : 1);
  shape.inputs = x.shape().dim(2);
  shape.hidden = inputs.r.shape().dim(2);
  shape.directions = parameters.Directions();
  const bool lstm = parameters.cell == RecurrentCell::kLstm;
  shape.gates = lstm ? 4 : parameters.cell == RecurrentCell::kGru ? 3 : 1;
  // A simple cell has one gate, which is its state h.
  shape.parts = lstm ? 6 : parameters.cell == RecurrentCell::kRnn ? 1 : 4;
  if (parameters.linear_before_reset) ++shape.parts;
  const int64_t d = shape.directions;
  const int64_t h = shape.hidden;
  if (h < 1 || h > kNewElementsMax || (parameters.hidden != 0 && parameters.hidden != h)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "hidden_size ", parameters.hidden, " does not fit the weights ", inputs.r.TypeString()));
  }
  RETURN_IF_ERROR(RequireShape("w", inputs.w, Shape{d, shape.gates * h, shape.inputs}));
  RETURN_IF_ERROR(RequireShape("r", inputs.r, Shape{d, shape.gates * h, h}));
  RETURN_IF_ERROR(CheckOptional("b", inputs.b, x, Shape{d, 2 * shape.gates * h}));
  const bool first = shape.batch_first;
  ASSIGN_OR_RETURN(shape.y,
                   CheckedShape(first ? std::vector<int64_t>{shape.batch, shape.steps, d, h}
                                      : std::vector<int64_t>{shape.steps, d, shape.batch, h}));
  ASSIGN_OR_RETURN(shape.state, CheckedShape(first ? std::vector<int64_t>{shape.batch, d, h}
                                                   : std::vector<int64_t>{d, shape.batch, h}));
  ASSIGN_OR_RETURN(shape.saved, CheckedShape({d, shape.steps, shape.batch, shape.parts * h}));
  RETURN_IF_ERROR(CheckMask(inputs, shape));
  RETURN_IF_ERROR(CheckOptional("initial_h", inputs.initial_h, x, shape.state));
  if (!lstm && (inputs.initial_c.has_value() || inputs.peepholes.has_value())) {
    return absl::InvalidArgumentError("only an LSTM has initial_c and peepholes");
  }
  RETURN_IF_ERROR(CheckOptional("initial_c", inputs.initial_c, x, shape.state));
  RETURN_IF_ERROR(CheckOptional("peepholes", inputs.peepholes, x, Shape{d, 3 * h}));
  return shape;
}

absl::Status CheckRecurrentGrad(const KernelContext& context, const Tensor& x,
                                const RecurrentShape& shape) {
  const struct {
    RecurrentGradInput input;
    const char* name;
    const Shape& shape;
  } checks[] = {{kGradOfY, "the gradient of y", shape.y},
                {kGradOfH, "the gradient of y_h", shape.state},
                {kGradOfC, "the gradient of y_c", shape.state},
                {kSavedRows, "saved", shape.saved}};
  for (const auto& check : checks) {
    RETURN_IF_ERROR(CheckOptional(check.name, InputOr(context, check.input), x, check.shape));
  }
  return absl::OkStatus();
}

RecurrentMask::RecurrentMask(const RecurrentInputs& inputs, const RecurrentParameters& parameters,
                             const RecurrentShape& shape)
    : batch_(shape.batch),
      // Steps behind the end of a sequence give zeros, as in ONNX.
      gives_zeros_(parameters.masked_zeros || inputs.lengths.has_value()) {
  const bool* const mask = inputs.mask.has_value() ? inputs.mask.data<bool>() : nullptr;
  const int32_t* const lengths =
      inputs.lengths.has_value() ? inputs.lengths.data<int32_t>() : nullptr;
  if (mask == nullptr && lengths == nullptr) return;
  counts_.assign(static_cast<size_t>(shape.steps * shape.batch), 0);
  for (int64_t t = 0; t < shape.steps; ++t) {
    for (int64_t n = 0; n < shape.batch; ++n) {
      const int64_t at = shape.batch_first ? n * shape.steps + t : t * shape.batch + n;
      const bool counts = (mask == nullptr || mask[at]) && (lengths == nullptr || t < lengths[n]);
      counts_[static_cast<size_t>(t * shape.batch + n)] = counts ? 1 : 0;
    }
  }
  const auto is_one = [](uint8_t each) { return each != 0; };
  if (std::all_of(counts_.begin(), counts_.end(), is_one)) counts_.clear();
}

}  // namespace cohort
