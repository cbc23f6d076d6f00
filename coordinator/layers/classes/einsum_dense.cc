// EinsumDense: products and sums of the input and a kernel, whose axes an equation names by
// letters, such as "abc,cd->abd". The first axis of input and output, or the first of those that
// "..." stands for, is the batch.

#include <algorithm>
#include <map>
#include <optional>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "common/base/excerpt.h"
#include "common/base/status.h"
#include "coordinator/layers/classes/layer_classes.h"
#include "coordinator/layers/layer_reader.h"
#include "coordinator/layers/nodes.h"

namespace cohort {
namespace {

constexpr char kEllipsis[] = "...";

// The place of "..." in the equation: nowhere, or before or behind the letters of input and output.
enum class Elision { kNone, kLeft, kRight };

// The terms of an equation without "...".
struct EinsumTerms {
  std::string input, kernel, output;
  Elision elision = Elision::kNone;
};

bool AreLetters(const std::string& term) {
  return !term.empty() && std::all_of(term.begin(), term.end(),
                                      [](unsigned char c) { return absl::ascii_isalpha(c); });
}

bool HasRepeats(std::string term) {
  std::sort(term.begin(), term.end());
  return std::adjacent_find(term.begin(), term.end()) != term.end();
}

// Removes "..." from one end of a term. Returns whether it was there.
bool TakeEllipsis(bool at_left, std::string& term) {
  const size_t length = std::string(kEllipsis).size();
  if (at_left && absl::StartsWith(term, kEllipsis)) {
    term.erase(0, length);
    return true;
  }
  if (!at_left && absl::EndsWith(term, kEllipsis)) {
    term.erase(term.size() - length);
    return true;
  }
  return false;
}

// Parses the three forms of Keras: "ab,bc->ac", "...b,bc->...c" and "ab...,bc->ac...".
std::optional<EinsumTerms> TermsOf(const std::string& equation) {
  const std::vector<std::string> sides = absl::StrSplit(equation, "->");
  if (sides.size() != 2) return std::nullopt;
  const std::vector<std::string> factors = absl::StrSplit(sides[0], ',');
  if (factors.size() != 2) return std::nullopt;
  EinsumTerms terms{factors[0], factors[1], sides[1]};
  for (const bool at_left : {true, false}) {
    const bool of_input = TakeEllipsis(at_left, terms.input);
    const bool of_output = TakeEllipsis(at_left, terms.output);
    if (of_input != of_output) return std::nullopt;
    if (!of_input) continue;
    if (terms.elision != Elision::kNone) return std::nullopt;
    terms.elision = at_left ? Elision::kLeft : Elision::kRight;
  }
  for (const std::string* term : {&terms.input, &terms.kernel, &terms.output}) {
    if (!AreLetters(*term) || HasRepeats(*term)) return std::nullopt;
  }
  return terms;
}

// The sizes that follow from an input: those of the output (with the batch as -1), of the kernel
// and of the bias.
struct EinsumShapes {
  std::vector<int64_t> output, kernel, bias;
};

class EinsumDense : public Layer {
 public:
  void Read(LayerReader& reader) override {
    ObjectReader& config = reader.config;
    reader.FloatPolicy();
    config.Require("equation");
    config.String("equation", &equation_);
    config.Require("output_shape");
    config.NullableInts("output_shape", {.min = 1, .max = kDimMax}, &output_shape_);
    reader.ReadActivation(&activation_);
    if (config.Given("bias_axes", !bias_axes_.empty())) config.String("bias_axes", &bias_axes_);
    reader.Weight("kernel", &kernel_);
    reader.Weight("bias", &bias_);
    config.OnlyNeutral("lora_rank", nullptr);
    config.OnlyNeutral("quantization_config", nullptr);
    CheckEquation(config);
  }

  absl::StatusOr<std::vector<TensorType>> Plan(const PlannedCall& call,
                                               LayerPlan& plan) const override {
    const std::string& layer = call.settings.layer;
    ASSIGN_OR_RETURN(const EinsumShapes shapes, ShapesOf(layer, call.shape()));
    RETURN_IF_ERROR(plan.Add(call, "kernel", Shape(shapes.kernel), kernel_).status());
    if (!bias_axes_.empty()) {
      RETURN_IF_ERROR(plan.Add(call, "bias", Shape(shapes.bias), bias_).status());
    }
    ASSIGN_OR_RETURN(TensorType type, ActivatedType(activation_, layer, Example(shapes)));
    return std::vector<TensorType>{std::move(type)};
  }

  std::vector<LayerValue> Build(const BuiltCall& call, LayerTarget& target) const override {
    const Nodes nodes(target.graph);
    const EinsumShapes shapes = *ShapesOf(call.layer(), call.shape());
    const std::string x = ChannelsLast(call.input(), nodes);
    std::string y = AddProduct(x, call, shapes, nodes);
    if (!bias_axes_.empty()) y = nodes.Add(y, call.Variable("bias"));
    return {Activate(activation_, {y, "", false, {.shape = Example(shapes)}}, target)};
  }

 private:
  static Shape Example(const EinsumShapes& shapes) {
    return Shape(absl::MakeConstSpan(shapes.output).subspan(1));
  }

  void CheckEquation(ObjectReader& config) {
    const std::optional<EinsumTerms> terms = TermsOf(Equation());
    if (!terms) {
      return config.AddError(
          "equation", absl::StrCat("is '", Excerpt(equation_),
                                   "'; it must have one of the forms 'ab,bc->ac', "
                                   "'...b,bc->...c' and 'ab...,bc->ac...', each letter once in a "
                                   "term"));
    }
    terms_ = *terms;
    const bool keeps_batch =
        terms_.elision == Elision::kLeft ||
        (terms_.input[0] == terms_.output[0] && !absl::StrContains(terms_.kernel, terms_.input[0]));
    if (!keeps_batch) {
      config.AddError("equation", absl::StrCat("is '", Excerpt(equation_),
                                               "'; the batch must be the first axis of input and "
                                               "output, and not one of the kernel"));
    }
    for (const char c : terms_.output) {
      if (!absl::StrContains(terms_.input, c) && !absl::StrContains(terms_.kernel, c)) {
        config.AddError("equation", absl::StrCat("has an output axis '", std::string(1, c),
                                                 "', which neither input nor kernel has"));
      }
    }
    for (const char c : bias_axes_) {
      if (!absl::StrContains(terms_.output, c)) {
        config.AddError("bias_axes",
                        absl::StrCat("is '", Excerpt(bias_axes_),
                                     "'; it must name axes of the output '", terms_.output, "'"));
      }
    }
  }

  // Returns the sizes by Keras's rules. Errors: INVALID_ARGUMENT naming the layer.
  absl::StatusOr<EinsumShapes> ShapesOf(const std::string& layer, const Shape& input) const {
    std::vector<int64_t> sizes = {-1};
    sizes.insert(sizes.end(), input.dims().begin(), input.dims().end());
    const size_t letters = terms_.input.size();
    const bool elides = terms_.elision != Elision::kNone;
    const bool fits = elides ? sizes.size() >= letters : sizes.size() == letters;
    if (!fits || (terms_.elision == Elision::kLeft && sizes.size() == letters)) {
      return WrongInput(layer, input,
                        absl::StrCat("its equation '", equation_, "' needs other dimensions"));
    }
    const size_t elided = sizes.size() - letters;
    const bool at_left = terms_.elision == Elision::kLeft;
    // The size of each letter that the input or output_shape gives.
    std::map<char, int64_t> known;
    for (size_t i = 0; i < letters; ++i) known[terms_.input[i]] = sizes[i + (at_left ? elided : 0)];
    RETURN_IF_ERROR(AddGiven(layer, input, known));
    EinsumShapes shapes;
    const auto rest = at_left ? sizes.begin() : sizes.end() - static_cast<std::ptrdiff_t>(elided);
    const std::vector<int64_t> others(rest, rest + static_cast<std::ptrdiff_t>(elided));
    if (at_left) shapes.output = others;
    for (const char c : terms_.output) shapes.output.push_back(known.at(c));
    if (!at_left) shapes.output.insert(shapes.output.end(), others.begin(), others.end());
    for (const char c : terms_.kernel) {
      if (!known.contains(c)) {
        return WrongInput(layer, input,
                          absl::StrCat("its kernel's axis '", std::string(1, c),
                                       "' is one of neither the input nor the output"));
      }
      shapes.kernel.push_back(known.at(c));
    }
    const size_t first = std::min(terms_.output.find_first_of(bias_axes_), terms_.output.size());
    for (const char c : terms_.output.substr(first)) {
      shapes.bias.push_back(absl::StrContains(bias_axes_, c) ? known.at(c) : 1);
    }
    if (!at_left) shapes.bias.insert(shapes.bias.end(), elided, 1);
    RETURN_IF_ERROR(CheckElements(layer, input, shapes));
    return shapes;
  }

  // Adds the sizes that output_shape gives. output_shape has neither the batch nor the axes of
  // "...".
  absl::Status AddGiven(const std::string& layer, const Shape& input,
                        std::map<char, int64_t>& known) const {
    const size_t skipped = terms_.elision == Elision::kLeft ? 0 : 1;
    if (output_shape_.size() + skipped != terms_.output.size()) {
      return WrongInput(layer, input,
                        absl::StrCat("its output_shape has ", output_shape_.size(),
                                     " numbers for the output '", terms_.output, "'"));
    }
    for (size_t i = 0; i < output_shape_.size(); ++i) {
      const char letter = terms_.output[i + skipped];
      const int64_t given = output_shape_[i];
      const auto [found, is_new] = known.insert({letter, given});
      const bool fits = is_new ? given > 0 : given < 0 || given == found->second;
      if (!fits) {
        return WrongInput(layer, input,
                          absl::StrCat("its output_shape gives ", given < 0 ? "no" : "another",
                                       " size for the axis '", std::string(1, letter), "'"));
      }
    }
    return absl::OkStatus();
  }

  static absl::Status CheckElements(const std::string& layer, const Shape& input,
                                    const EinsumShapes& shapes) {
    for (const std::vector<int64_t>* dims : {&shapes.output, &shapes.kernel}) {
      int64_t elements = 1;
      for (const int64_t dim : *dims) {
        if (dim > 0 && elements > kElementsMax / dim) {
          return WrongInput(layer, input, "it would make more than 2^31 elements");
        }
        elements *= std::max<int64_t>(dim, 1);
      }
    }
    return absl::OkStatus();
  }

  // Adds the product. It is a product of matrices, which is much faster, if the input's last axes
  // are the kernel's first ones and the other axes keep their order.
  std::string AddProduct(const std::string& x, const BuiltCall& call, const EinsumShapes& shapes,
                         const Nodes& nodes) const {
    const std::string kernel = call.Variable("kernel");
    size_t kept = 0;
    while (kept < terms_.input.size() && kept < terms_.output.size() &&
           terms_.input[kept] == terms_.output[kept]) {
      ++kept;
    }
    const std::string summed = terms_.input.substr(kept);
    const std::string added = terms_.output.substr(kept);
    if (terms_.elision == Elision::kRight || terms_.kernel != summed + added) {
      return nodes.graph().Op("Einsum", {x, kernel}, {StringAttribute("equation", Equation())});
    }
    int64_t rows = 1;
    for (size_t i = 0; i < summed.size(); ++i) rows *= shapes.kernel[i];
    int64_t columns = 1;
    for (size_t i = summed.size(); i < shapes.kernel.size(); ++i) columns *= shapes.kernel[i];
    const std::string y =
        nodes.Op("MatMul", {nodes.Reshape(x, {-1, rows}), nodes.Reshape(kernel, {rows, columns})});
    return nodes.ReshapeExamples(y, Example(shapes));
  }

  // Returns the equation without spaces.
  std::string Equation() const {
    std::string equation = equation_;
    equation.erase(std::remove(equation.begin(), equation.end(), ' '), equation.end());
    return equation;
  }

  std::string equation_;
  EinsumTerms terms_;
  std::vector<int64_t> output_shape_;  // -1: the size is that of the input
  std::string bias_axes_;              // empty: there is no bias
  Activation activation_;
  WeightRules kernel_{{.class_name = "GlorotUniform"}};
  WeightRules bias_{{.class_name = "Zeros"}};
};

}  // namespace

void AddEinsumLayers(std::vector<LayerClass>& classes) {
  classes.push_back({"EinsumDense", MakeLayer<EinsumDense>});
}

}  // namespace cohort
