#include "common/runtime/kernels/einsum_shape.h"

#include <algorithm>
#include <map>

#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"

namespace cohort {

namespace {

// The label of each axis of a term. Labels of letters are their characters; those of the axes of
// "..." are negative, -1 for the last one.
using AxisLabels = std::vector<int>;

bool IsLetter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }

absl::Status Refuse(const std::string& equation, const std::string& reason) {
  return absl::InvalidArgumentError(absl::StrCat("equation '", equation, "': ", reason));
}

// Returns a term in which one character stands for "...".
absl::StatusOr<std::string> ParseTerm(const std::string& equation, absl::string_view text) {
  std::string term = absl::StrReplaceAll(text, {{" ", ""}});
  const size_t dots = term.find("...");
  if (dots != std::string::npos) term.replace(dots, 3, 1, EinsumEquation::kEllipsis);
  for (size_t i = 0; i < term.size(); ++i) {
    if (IsLetter(term[i]) || (i == dots && term[i] == EinsumEquation::kEllipsis)) continue;
    return Refuse(equation, absl::StrCat("'", term.substr(i, 1),
                                         "' is neither a letter nor a single '...' of its term"));
  }
  return term;
}

// Returns the result's labels of an equation without "->".
std::string ImpliedOutput(const std::vector<std::string>& inputs) {
  std::map<char, int> counts;
  for (const std::string& term : inputs) {
    for (const char label : term) ++counts[label];
  }
  std::string output;
  // '.' stands before all letters.
  for (const auto& [label, count] : counts) {
    if (count == 1 || label == EinsumEquation::kEllipsis) output.push_back(label);
  }
  return output;
}

// Checks that the result has labels of the inputs, each once.
absl::Status CheckOutput(const std::string& text, const EinsumEquation& equation) {
  for (size_t i = 0; i < equation.output.size(); ++i) {
    const char label = equation.output[i];
    const auto has = [label](const std::string& term) {
      return term.find(label) != std::string::npos;
    };
    if (equation.output.find(label) != i) {
      return Refuse(text, absl::StrCat("the result has '", std::string(1, label), "' twice"));
    }
    if (label != EinsumEquation::kEllipsis &&
        std::none_of(equation.inputs.begin(), equation.inputs.end(), has)) {
      return Refuse(
          text, absl::StrCat("no input has the label '", std::string(1, label), "' of the result"));
    }
  }
  return absl::OkStatus();
}

// Returns the labels of a term's axes, if "..." stands for `axes` axes.
AxisLabels LabelsOf(const std::string& term, int axes) {
  AxisLabels labels;
  for (const char c : term) {
    if (c != EinsumEquation::kEllipsis) labels.push_back(c);
    for (int i = axes; c == EinsumEquation::kEllipsis && i > 0; --i) labels.push_back(-i);
  }
  return labels;
}

// Returns the number of axes for which "..." of a term stands. Errors: a rank that does not fit.
absl::StatusOr<int> EllipsisRank(const std::string& term, const Shape& shape) {
  const bool open = term.find(EinsumEquation::kEllipsis) != std::string::npos;
  const int named = static_cast<int>(term.size()) - (open ? 1 : 0);
  if (shape.rank() < named || (shape.rank() > named && !open)) {
    return absl::InvalidArgumentError(
        absl::StrCat("the term '", absl::StrReplaceAll(term, {{".", "..."}}), "' names ", named,
                     " axes of ", shape.ToString()));
  }
  return shape.rank() - named;
}

// Returns the strides of a tensor of the shape `shape`, whose axes have these labels, in the order
// of `all`.
LabelStrides StridesOf(const Shape& shape, const AxisLabels& labels, const AxisLabels& all) {
  LabelStrides strides(all.size(), 0);
  int64_t stride = 1;
  for (size_t axis = labels.size(); axis > 0; --axis) {
    const int64_t extent = shape.dim(static_cast<int>(axis) - 1);
    const auto place = std::find(all.begin(), all.end(), labels[axis - 1]) - all.begin();
    if (extent != 1) strides[static_cast<size_t>(place)] += stride;
    stride *= extent;
  }
  return strides;
}

}  // namespace

absl::StatusOr<EinsumEquation> ParseEquation(const std::string& text) {
  EinsumEquation equation;
  const std::vector<absl::string_view> sides = absl::StrSplit(text, "->");
  if (sides.size() > 2) return Refuse(text, "has several '->'");
  for (const absl::string_view term : absl::StrSplit(sides[0], ',')) {
    ASSIGN_OR_RETURN(std::string parsed, ParseTerm(text, term));
    equation.inputs.push_back(std::move(parsed));
  }
  if (sides.size() == 1) {
    equation.output = ImpliedOutput(equation.inputs);
    return equation;
  }
  ASSIGN_OR_RETURN(equation.output, ParseTerm(text, sides[1]));
  RETURN_IF_ERROR(CheckOutput(text, equation));
  return equation;
}

EinsumParameters ParseEinsum(AttributeReader& reader) {
  EinsumParameters parameters;
  const absl::StatusOr<EinsumEquation> equation = ParseEquation(reader.String("equation", ""));
  if (!equation.ok()) {
    reader.Fail(std::string(equation.status().message()));
    return parameters;
  }
  parameters.equation = *equation;
  return parameters;
}

EinsumParameters ParseEinsumGrad(AttributeReader& reader) {
  EinsumParameters parameters = ParseEinsum(reader);
  const int64_t operand = reader.Int("operand", 0);
  const int64_t count = static_cast<int64_t>(parameters.equation.inputs.size());
  if (operand < 0 || operand >= count) {
    reader.Fail(absl::StrCat("operand ", operand, " is not in [0, ", count, ")"));
    return parameters;
  }
  parameters.operand = static_cast<size_t>(operand);
  return parameters;
}

absl::StatusOr<EinsumShape> ResolveEinsum(const EinsumEquation& equation,
                                          absl::Span<const Shape> inputs) {
  if (inputs.size() != equation.inputs.size()) {
    return absl::InvalidArgumentError(absl::StrCat("the equation has ", equation.inputs.size(),
                                                   " terms for ", inputs.size(), " inputs"));
  }
  std::vector<AxisLabels> terms;
  std::map<int, int64_t> extents;
  int ellipsis = 0;
  for (size_t i = 0; i < inputs.size(); ++i) {
    ASSIGN_OR_RETURN(const int rank, EllipsisRank(equation.inputs[i], inputs[i]));
    ellipsis = std::max(ellipsis, rank);
    terms.push_back(LabelsOf(equation.inputs[i], rank));
    for (size_t axis = 0; axis < terms[i].size(); ++axis) {
      const int64_t extent = inputs[i].dim(static_cast<int>(axis));
      int64_t& known = extents.emplace(terms[i][axis], extent).first->second;
      if (known == 1) known = extent;
      if (extent == known || extent == 1) continue;
      return absl::InvalidArgumentError(absl::StrCat("axis ", axis, " of ", inputs[i].ToString(),
                                                     " meets an axis of ", known,
                                                     " with the same label"));
    }
  }
  EinsumShape shape;
  AxisLabels all;
  // Labels of the result come first, those of "..." too. Only the last labels are summed.
  const AxisLabels output = LabelsOf(equation.output, ellipsis);
  std::vector<int64_t> dims;
  for (const int label : output) {
    all.push_back(label);
    dims.push_back(extents.at(label));
  }
  for (const auto& [label, extent] : extents) {
    if (std::find(output.begin(), output.end(), label) == output.end()) all.push_back(label);
  }
  ASSIGN_OR_RETURN(shape.result, CheckedShape(dims));
  for (const int label : all) shape.extents.push_back(extents.at(label));
  for (size_t i = 0; i < inputs.size(); ++i) {
    shape.inputs.push_back(StridesOf(inputs[i], terms[i], all));
  }
  shape.output = StridesOf(shape.result, output, all);
  return shape;
}

absl::StatusOr<Contraction> EinsumContraction(const KernelContext& context,
                                              const EinsumParameters& parameters) {
  std::vector<Shape> shapes;
  Contraction contraction;
  for (int i = 0; i < context.num_inputs(); ++i) {
    RETURN_IF_ERROR(RequireSameType(context.input(0), context.input(i)));
    shapes.push_back(context.input(i).shape());
    contraction.tensors.push_back(context.input(i));
  }
  ASSIGN_OR_RETURN(EinsumShape shape, ResolveEinsum(parameters.equation, shapes));
  contraction.extents = std::move(shape.extents);
  contraction.sum = std::move(shape.output);
  contraction.result = std::move(shape.result);
  contraction.factors = std::move(shape.inputs);
  return contraction;
}

absl::StatusOr<Contraction> EinsumGradContraction(const KernelContext& context,
                                                  const EinsumParameters& parameters) {
  const Tensor& dy = context.input(0);
  std::vector<Shape> shapes;
  for (int i = 1; i < context.num_inputs(); ++i) shapes.push_back(context.input(i).shape());
  ASSIGN_OR_RETURN(EinsumShape shape, ResolveEinsum(parameters.equation, shapes));
  if (dy.shape() != shape.result) {
    return absl::InvalidArgumentError(
        absl::StrCat("gradient ", dy.TypeString(), " where Einsum gave ", shape.result.ToString()));
  }
  Contraction contraction;
  contraction.factors.push_back(std::move(shape.output));
  contraction.tensors.push_back(dy);
  for (size_t i = 0; i < shapes.size(); ++i) {
    const Tensor& factor = context.input(static_cast<int>(i) + 1);
    RETURN_IF_ERROR(RequireSameType(dy, factor));
    if (i == parameters.operand) continue;
    contraction.factors.push_back(std::move(shape.inputs[i]));
    contraction.tensors.push_back(factor);
  }
  contraction.extents = std::move(shape.extents);
  contraction.sum = std::move(shape.inputs[parameters.operand]);
  contraction.result = shapes[parameters.operand];
  return contraction;
}

}  // namespace cohort
