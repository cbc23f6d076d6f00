#include "common/program/gradients.h"

#include <map>
#include <optional>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/base/status.h"
#include "common/program/cohort_ops.h"
#include "common/program/gradient_rules.h"
#include "common/program/graph_builder.h"
#include "common/program/model_check.h"

namespace cohort {
namespace {

// The part of the graph through which the loss depends on the inputs for which gradients are
// wanted.
struct Path {
  // Values that depend smoothly on an input for which a gradient is wanted.
  std::set<std::string> values;
  std::set<int> nodes;  // positions in the graph's node list of the nodes that need gradients
};

// Returns the key under which GradientRules has the rule of the node's operator.
std::string RuleKey(const onnx::NodeProto& node) {
  return node.domain() == kCohortDomain ? absl::StrCat("cohort.", node.op_type())
         : node.domain().empty()        ? node.op_type()
                                        : absl::StrCat(node.domain(), ".", node.op_type());
}

bool AnyOf(const google::protobuf::RepeatedPtrField<std::string>& names,
           const std::set<std::string>& set) {
  for (const auto& name : names) {
    if (set.count(name) > 0) return true;
  }
  return false;
}

// Returns the values that depend on the inputs `wrt`, and the nodes through which the loss depends
// on these inputs.
Path FindPath(const onnx::GraphProto& graph, const ValueTypes& types, const std::string& loss,
              absl::Span<const std::string> wrt) {
  Path path;
  // The first pass goes forwards through the graph. Nodes are sorted, so this pass finds all values
  // that depend on `wrt`.
  path.values.insert(wrt.begin(), wrt.end());
  for (const auto& node : graph.node()) {
    if (StopsGradient(node) || !AnyOf(node.input(), path.values)) continue;
    for (const auto& output : node.output()) {
      if (types.IsReal(output)) path.values.insert(output);
    }
  }
  // The second pass goes backwards through the graph and finds the nodes whose results reach the
  // loss. Only these nodes need gradients.
  std::set<std::string> needed;
  if (path.values.count(loss) > 0) needed.insert(loss);
  for (int i = graph.node_size() - 1; i >= 0; --i) {
    const auto& node = graph.node(i);
    if (StopsGradient(node) || !AnyOf(node.output(), needed)) continue;
    path.nodes.insert(i);
    for (const auto& input : node.input()) {
      if (path.values.count(input) > 0) needed.insert(input);
    }
  }
  return path;
}

// Returns the text of an error about one node: the node's name and operator, and the reason.
std::string Offender(const onnx::NodeProto& node, absl::string_view reason) {
  return absl::StrCat("node \"", node.name(), "\" (",
                      node.domain().empty() ? "onnx" : node.domain(), ".", node.op_type(),
                      "): ", reason);
}

absl::Status OffendersStatus(const std::vector<std::string>& offenders) {
  if (offenders.empty()) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("the loss cannot be differentiated: ", absl::StrJoin(offenders, "; ")));
}

// Checks that every node on the path has a gradient rule, and that no output of the node is float16
// or bfloat16.
absl::Status CheckRules(const onnx::GraphProto& graph, const ValueTypes& types, const Path& path,
                        const GradientRules& rules) {
  std::vector<std::string> offenders;
  for (const int i : path.nodes) {
    const auto& node = graph.node(i);
    if (rules.count(RuleKey(node)) == 0) {
      offenders.push_back(Offender(node, "this operator has no gradient"));
    }
    for (const auto& output : node.output()) {
      const DType dtype = types.dtype(output);
      if (dtype == DType::kFloat16 || dtype == DType::kBfloat16) {
        offenders.push_back(Offender(node, "only float32 and float64 have gradients"));
      }
    }
  }
  return OffendersStatus(offenders);
}

// Checks that `loss` has exactly one element, and that each of `wrt` is an input or a weight of
// type float32 or float64.
absl::Status CheckArguments(const onnx::GraphProto& graph, const ValueTypes& types,
                            const std::string& loss, absl::Span<const std::string> wrt) {
  const onnx::TensorShapeProto* shape = types.shape(loss);
  if (shape == nullptr || !types.IsReal(loss)) {
    return absl::InvalidArgumentError(
        absl::StrCat("loss \"", loss, "\" is not a real value of the graph"));
  }
  for (const auto& dim : shape->dim()) {
    // A dimension without a number has the dim_value 0, so a loss with such a dimension is refused
    // too.
    if (dim.dim_value() != 1) {
      return absl::InvalidArgumentError(absl::StrCat(
          "loss \"", loss, "\" is ", TypeText(types.Find(loss)), ": it must have one element"));
    }
  }
  std::set<std::string> leaves;
  for (const auto& input : graph.input()) leaves.insert(input.name());
  for (const auto& tensor : graph.initializer()) leaves.insert(tensor.name());
  for (const auto& name : wrt) {
    const DType dtype = types.dtype(name);
    if (leaves.count(name) == 0 || (dtype != DType::kFloat32 && dtype != DType::kFloat64)) {
      return absl::InvalidArgumentError(
          absl::StrCat("gradient of \"", name, "\": it is not a float32 or float64 input"));
    }
  }
  return absl::OkStatus();
}

// Adds to the nodes on the path the outputs that the operators' gradient rules read and that the
// nodes lack, such as the mask of Dropout. ONNX lets a forward graph omit these outputs.
void AddNeededOutputs(const Path& path, const GradientRules& rules, onnx::GraphProto& graph) {
  std::set<std::string> used;
  for (const auto& input : graph.input()) used.insert(input.name());
  for (const auto& tensor : graph.initializer()) used.insert(tensor.name());
  for (const auto& node : graph.node()) used.insert(node.output().begin(), node.output().end());
  for (const int i : path.nodes) {
    auto* node = graph.mutable_node(i);
    const std::vector<std::string>& needs = rules.at(RuleKey(*node)).needs;
    for (size_t need = 0; need < needs.size(); ++need) {
      const int output = static_cast<int>(need) + 1;
      if (needs[need].empty()) continue;
      if (node->output_size() > output && !node->output(output).empty()) continue;
      std::string name = absl::StrCat(node->name(), ":", needs[need]);
      // The forward graph may already have a value of this name, so underscores are appended until
      // the name is new.
      while (!used.insert(name).second) name += "_";
      while (node->output_size() <= output) node->add_output();
      node->set_output(output, name);
    }
  }
}

// Returns the gradient of the loss with respect to itself: 1 in the shape of the loss.
Tensor Ones(DType dtype, const onnx::TensorShapeProto& shape) {
  const std::vector<int64_t> dims(static_cast<size_t>(shape.dim_size()), 1);
  return dtype == DType::kFloat64 ? Tensor::FromVector<double>({1}, Shape(dims))
                                  : Tensor::FromVector<float>({1}, Shape(dims));
}

// The builder of the backward nodes, which lives for one call of AddGradients. Thread-compatible.
class Backward {
 public:
  Backward(const onnx::ModelProto& model, const Path& path)
      : graph_(model.graph()), forward_(model), path_(path), builder_(model) {
    for (const auto& output : graph_.output()) outputs_.insert(output.name());
  }

  // Adds the backward nodes. Afterwards the gradient of every value on the path is known.
  absl::Status Run(const std::string& loss, const GradientRules& rules) {
    const ValueTypes& types = forward_.types();
    const Tensor ones = Ones(types.dtype(loss), *types.shape(loss));
    if (path_.values.count(loss) > 0) {
      const std::string seed = builder_.Constant("gradient/" + loss, ones);
      parts_[loss].push_back(seed);
      // The constant 1 is a weight of the graph, and a weight cannot also be a graph output.
      outputs_.insert(seed);
    }
    std::vector<std::string> offenders;
    // Nodes are visited from the loss backwards, so all gradients of a node's outputs are complete
    // before the visit of the node.
    for (auto it = path_.nodes.rbegin(); it != path_.nodes.rend(); ++it) {
      const auto& node = graph_.node(*it);
      const absl::Status status = Visit(node, rules.at(RuleKey(node)).rule);
      if (!status.ok()) offenders.push_back(Offender(node, status.message()));
    }
    return OffendersStatus(offenders);
  }

  // Makes the gradient of the graph input `input` a graph output, and returns that output's name.
  std::string Output(const std::string& input) {
    builder_.SetNamePrefix(absl::StrCat("gradient/", input, "/"));
    std::string gradient = Sum(input);
    // The loss does not depend on an input that no gradient has reached, so this input's gradient
    // is zeros.
    if (gradient.empty()) gradient = builder_.Op("ZerosLike", {input}, {}, kCohortDomain);
    // Two inputs may have the same gradient value (such as both inputs of an Add), but each graph
    // output must be a separate value.
    if (!outputs_.insert(gradient).second) {
      gradient = builder_.Op("Identity", {gradient});
      outputs_.insert(gradient);
    }
    builder_.Output(gradient);
    return gradient;
  }

  absl::StatusOr<onnx::ModelProto> Finish() { return builder_.Finish(); }

 private:
  absl::Status Visit(const onnx::NodeProto& node, GradientRule rule) {
    builder_.SetNamePrefix(absl::StrCat("gradient/", node.name(), "/"));
    // The gradients of a product are products of the same precision.
    builder_.SetProductPrecision(ProductPrecisionOf(node));
    std::vector<std::string> dy;
    bool any = false;
    for (const auto& output : node.output()) {
      dy.push_back(output.empty() ? "" : Sum(output));
      any |= !dy.back().empty();
    }
    // If no output of a node has a gradient, the node gets no backward nodes. This happens, for
    // example, to nodes that compute the labels of a loss.
    if (!any) return absl::OkStatus();
    std::vector<bool> wanted;
    for (const auto& input : node.input()) wanted.push_back(path_.values.count(input) > 0);
    GradientSite site(node, forward_, builder_, std::move(dy), std::move(wanted));
    RETURN_IF_ERROR(rule(site));
    for (int i = 0; i < node.input_size(); ++i) {
      const std::string& dx = site.dx()[static_cast<size_t>(i)];
      if (!dx.empty()) parts_[node.input(i)].push_back(dx);
    }
    return absl::OkStatus();
  }

  // Returns the sum of all gradients that have reached `value`, or "" if there is none. The sum is
  // a chain of Add nodes in a fixed order.
  std::string Sum(const std::string& value) {
    auto it = parts_.find(value);
    if (it == parts_.end()) return "";
    std::vector<std::string>& parts = it->second;
    std::string sum = parts[0];
    for (size_t i = 1; i < parts.size(); ++i) sum = builder_.Op("Add", {sum, parts[i]});
    // The sum replaces its summands in `parts_`, so a second request for the sum adds no further
    // nodes.
    parts = {sum};
    return sum;
  }

  const onnx::GraphProto& graph_;
  const ForwardGraph forward_;
  const Path& path_;
  GraphBuilder builder_;
  // For each value, the gradients that rules have set for the value so far.
  std::map<std::string, std::vector<std::string>> parts_;
  std::set<std::string> outputs_;
};

}  // namespace

absl::StatusOr<GradientGraph> AddGradients(const onnx::ModelProto& model, const std::string& loss,
                                           absl::Span<const std::string> wrt) {
  onnx::ModelProto forward = model;
  // The names of backward nodes contain the names of forward nodes, so NameNodes first names every
  // forward node.
  NameNodes(*forward.mutable_graph());
  RETURN_IF_ERROR(CheckAndInfer(forward));
  const ValueTypes types(forward.graph());
  RETURN_IF_ERROR(CheckArguments(forward.graph(), types, loss, wrt));
  const Path path = FindPath(forward.graph(), types, loss, wrt);
  const GradientRules rules = AllGradientRules();
  RETURN_IF_ERROR(CheckRules(forward.graph(), types, path, rules));
  // The outputs that are added have no types yet. Finish infers the types of the whole graph.
  AddNeededOutputs(path, rules, *forward.mutable_graph());
  Backward backward(forward, path);
  RETURN_IF_ERROR(backward.Run(loss, rules));
  GradientGraph result;
  for (const std::string& input : wrt) result.gradients.push_back(backward.Output(input));
  ASSIGN_OR_RETURN(result.model, backward.Finish());
  return result;
}

}  // namespace cohort
