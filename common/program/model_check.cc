#include "common/program/model_check.h"

#include <algorithm>
#include <cstdint>
#include <exception>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/base/status.h"
#include "common/program/cohort_ops.h"
#include "common/program/tensor_proto.h"
#include "common/program/value_types.h"
#include "onnx/checker.h"
#include "onnx/defs/data_type_utils.h"
#include "onnx/defs/schema.h"
#include "onnx/onnx_pb.h"
#include "onnx/shape_inference/implementation.h"

namespace cohort {

namespace {

// The types of values for which the name of a dimension has been restored; grows with each pass of
// inference. libonnx's inference loses the symbolic batch size "N" in Reshape([N,28,28], [-1,784]):
// the -1 becomes a symbol that libonnx makes up ("unk__0"). The name is restored if the numbers
// prove that the made-up symbol equals the only named dimension of the Reshape's input.
using NamedShapes = std::map<std::string, onnx::TypeProto>;

// A shape in factored form: the product of the dimensions that are numbers, and the one dimension
// that is not a number.
struct Factored {
  int64_t product = 1;
  int open = -1;  // position in the shape of the dimension that is not a number; -1: none
};

// Returns the factored form of a shape. Returns nothing if no dimension or several dimensions are
// not numbers, or if a number is 0, because such a shape proves nothing.
std::optional<Factored> Factor(const onnx::TensorShapeProto& shape) {
  Factored result;
  for (int i = 0; i < shape.dim_size(); ++i) {
    if (!shape.dim(i).has_dim_value()) {
      if (result.open >= 0) return std::nullopt;
      result.open = i;
    } else if (__builtin_mul_overflow(result.product, shape.dim(i).dim_value(), &result.product)) {
      return std::nullopt;
    }
  }
  if (result.open < 0 || result.product == 0) return std::nullopt;
  return result;
}

// Returns true if libonnx has made up the symbol of a dimension, or if the dimension has no symbol.
bool IsMadeUpSymbol(const std::string& dim_param) {
  return dim_param.empty() || dim_param.rfind("unk__", 0) == 0;
}

// Looks for Reshape outputs whose made-up symbol provably equals a named dimension, and adds the
// outputs' types with that name to `named`. Returns true if any type was added; the caller must
// then infer the types of the whole graph again.
bool NameReshapedDims(const onnx::GraphProto& graph, NamedShapes& named) {
  const ValueTypes types(graph);
  // For each symbol that libonnx made up, the name of the dimension that it provably equals. With
  // this map, one pass of inference restores the names along a whole chain of Reshapes.
  std::map<std::string, std::string> names;
  bool added = false;
  for (const auto& node : graph.node()) {
    if (node.op_type() != "Reshape" || !node.domain().empty()) continue;
    const auto* from = types.shape(node.input(0));
    const auto* to = types.shape(node.output(0));
    if (from == nullptr || to == nullptr) continue;
    const auto x = Factor(*from);
    const auto y = Factor(*to);
    // A Reshape keeps the number of elements, so if the products of the numbers are equal, the
    // dimensions that are not numbers are equal too.
    if (!x || !y || x->product != y->product) continue;
    std::string name = from->dim(x->open).dim_param();
    if (const auto known = names.find(name); known != names.end()) name = known->second;
    const std::string& symbol = to->dim(y->open).dim_param();
    if (IsMadeUpSymbol(name) || !IsMadeUpSymbol(symbol)) continue;
    onnx::TypeProto type = *types.Find(node.output(0));
    auto* dims = type.mutable_tensor_type()->mutable_shape();
    dims->mutable_dim(y->open)->set_dim_param(name);
    if (!symbol.empty()) names[symbol] = name;
    added |= named.emplace(node.output(0), std::move(type)).second;
  }
  return added;
}

// Returns libonnx's name of a type, or nullptr if ONNX has no name for the type, in which case
// libonnx throws.
onnx::DataType NamedType(const onnx::TypeProto& type) {
  try {
    return onnx::Utils::DataTypeUtils::ToType(type);
  } catch (const std::exception&) {
    return nullptr;
  }
}

// Returns the reasons, one sentence for each, why the element types of a node's inputs contradict
// the schema of the node's operator. libonnx has such a check too, but stops at the first wrong
// node of a graph. The operator must exist in the version `opset` of its domain.
std::vector<std::string> WrongInputTypes(const onnx::NodeProto& node, int opset,
                                         const ValueTypes& types) {
  const onnx::OpSchema* schema =
      onnx::OpSchemaRegistry::Schema(node.op_type(), opset, node.domain());
  std::vector<std::string> wrong;
  if (schema == nullptr || schema->inputs().empty()) return wrong;
  // For each type parameter of the schema (such as "T"), the element type of the first input that
  // has this type parameter.
  std::map<std::string, std::string> bound;
  for (int i = 0; i < node.input_size(); ++i) {
    const onnx::TypeProto* type = node.input(i).empty() ? nullptr : types.Find(node.input(i));
    if (type == nullptr) continue;
    // The schema's last input may be variadic. It then stands for all further inputs of the node.
    const size_t last = schema->inputs().size() - 1;
    const auto& formal = schema->inputs()[std::min(static_cast<size_t>(i), last)];
    const onnx::DataType data_type = NamedType(*type);
    if (data_type == nullptr) {
      wrong.push_back(absl::StrCat("input ", i, " (", formal.GetName(), ") has no type of ONNX"));
      continue;
    }
    if (formal.GetTypes().count(data_type) == 0) {
      wrong.push_back(
          absl::StrCat("input ", i, " (", formal.GetName(), ") cannot be ", *data_type));
      continue;
    }
    // A variadic input that is not homogeneous may have several types, so such inputs are not
    // compared.
    if (!formal.GetIsHomogeneous()) continue;
    const auto& first = bound.emplace(formal.GetTypeStr(), *data_type).first->second;
    if (first != *data_type) {
      wrong.push_back(absl::StrCat("input ", i, " (", formal.GetName(), ") is ", *data_type,
                                   ", but another input of its type ", formal.GetTypeStr(), " is ",
                                   first));
    }
  }
  return wrong;
}

// The largest number of problems that one error lists. Further problems are only counted.
constexpr size_t kProblemsMax = 50;
// The largest number of passes of inference over one model. Each pass can restore names of
// dimensions that become provable only with the names restored in earlier passes.
constexpr int kInferenceRoundsMax = 8;

// The collected problems of one model. Thread-compatible.
class Problems {
 public:
  void Add(const onnx::NodeProto& node, const std::string& reason) {
    nodes_.insert(&node);
    list_.push_back(absl::StrCat("node \"", node.name(), "\" (",
                                 node.domain().empty() ? "onnx" : node.domain(), ".",
                                 node.op_type(), "): ", reason));
  }
  void Add(const std::string& problem) { list_.push_back(problem); }
  bool empty() const { return list_.empty(); }
  // Returns true if a problem of `node` has been added. Nodes are compared by address, so no node
  // may be moved or copied while problems are collected.
  bool Has(const onnx::NodeProto& node) const { return nodes_.count(&node) > 0; }

  absl::Status ToStatus() const {
    if (list_.empty()) return absl::OkStatus();
    const size_t shown = std::min(list_.size(), kProblemsMax);
    std::string text = absl::StrCat(
        "the model has ", list_.size(), list_.size() == 1 ? " problem: " : " problems: ",
        absl::StrJoin(list_.begin(), list_.begin() + static_cast<long>(shown), "; "));
    if (shown < list_.size()) absl::StrAppend(&text, "; and ", list_.size() - shown, " more");
    return absl::InvalidArgumentError(text);
  }

 private:
  std::vector<std::string> list_;
  std::set<const onnx::NodeProto*> nodes_;
};

using Opsets = std::map<std::string, int>;

// Returns the version of each domain that the model imports.
Opsets OpsetsOf(const onnx::ModelProto& model) {
  Opsets opsets;
  for (const auto& import : model.opset_import()) {
    opsets[import.domain()] = static_cast<int>(import.version());
  }
  return opsets;
}

// Returns true if the node's operator exists in the opset that the model imports.
bool IsKnown(const onnx::NodeProto& node, const Opsets& opsets) {
  const auto opset = opsets.find(node.domain());
  return opset != opsets.end() &&
         onnx::OpSchemaRegistry::Schema(node.op_type(), opset->second, node.domain()) != nullptr;
}

// Checks that the model imports the node's operator and that the operator is not deprecated. Also
// checks the numbers of inputs and outputs, and the attributes, against the operator's schema.
void CheckNode(const onnx::NodeProto& node, const Opsets& opsets, Problems& problems) {
  const auto opset = opsets.find(node.domain());
  if (opset == opsets.end()) {
    problems.Add(node, "the model imports no opset of this domain");
    return;
  }
  const onnx::OpSchema* schema =
      onnx::OpSchemaRegistry::Schema(node.op_type(), opset->second, node.domain());
  if (schema == nullptr) {
    problems.Add(node, absl::StrCat("unknown operator in opset ", opset->second));
    return;
  }
  if (schema->Deprecated()) {
    problems.Add(node, absl::StrCat("removed from ONNX before opset ", opset->second));
    return;
  }
  try {
    schema->Verify(node);
  } catch (const std::exception& error) {
    problems.Add(node, error.what());
  }
}

void CheckGraph(const onnx::GraphProto& graph, const Opsets& opsets, std::set<std::string> known,
                Problems& problems);

// Checks all graphs in a node's attributes (CheckGraph), and all tensors there (CheckTensorProto).
void CheckSubgraphs(const onnx::NodeProto& node, const Opsets& opsets,
                    const std::set<std::string>& known, Problems& problems) {
  for (const onnx::AttributeProto& attribute : node.attribute()) {
    if (attribute.has_g()) CheckGraph(attribute.g(), opsets, known, problems);
    for (const auto& graph : attribute.graphs()) CheckGraph(graph, opsets, known, problems);
    if (attribute.has_t()) {
      const absl::Status status = CheckTensorProto(attribute.t());
      if (!status.ok()) problems.Add(node, std::string(status.message()));
    }
  }
}

// Checks the nodes of a graph and of its subgraphs. `known` holds the names of the enclosing
// graphs' values, and grows by the names of this graph's values in the order of the nodes.
void CheckGraph(const onnx::GraphProto& graph, const Opsets& opsets, std::set<std::string> known,
                Problems& problems) {
  std::set<std::string> inputs;
  for (const auto& input : graph.input()) {
    if (!inputs.insert(input.name()).second) {
      problems.Add(absl::StrCat("two inputs are named \"", input.name(), "\""));
    }
    known.insert(input.name());
  }
  std::set<std::string> weights;
  for (const auto& tensor : graph.initializer()) {
    if (!weights.insert(tensor.name()).second) {
      problems.Add(absl::StrCat("two weights are named \"", tensor.name(), "\""));
    }
    const absl::Status status = CheckTensorProto(tensor);
    if (!status.ok()) problems.Add(std::string(status.message()));
    known.insert(tensor.name());
  }
  if (graph.sparse_initializer_size() > 0) problems.Add("sparse weights are not supported");
  std::set<std::string> node_names;
  for (const auto& node : graph.node()) {
    if (!node.name().empty() && !node_names.insert(node.name()).second) {
      problems.Add(node, "another node has this name");
    }
    for (const auto& input : node.input()) {
      if (!input.empty() && known.count(input) == 0) {
        problems.Add(node, absl::StrCat("its input \"", input, "\" is not made before it"));
      }
    }
    CheckNode(node, opsets, problems);
    // A subgraph may use the values of its enclosing graph that are made before the subgraph's
    // node.
    CheckSubgraphs(node, opsets, known, problems);
    for (const auto& output : node.output()) {
      // In ONNX, a name is given to one value only (static single assignment), and a subgraph must
      // not give the name again.
      if (!output.empty() && !known.insert(output).second) {
        problems.Add(node, absl::StrCat("its output \"", output, "\" exists already"));
      }
    }
  }
  for (const auto& output : graph.output()) {
    if (known.count(output.name()) == 0) {
      problems.Add(absl::StrCat("output \"", output.name(), "\" is made by no node"));
    }
  }
}

// Fills in the types of graph outputs that are also inputs or weights of the graph. Inference fills
// in only the types of outputs that a node makes.
void FillOutputTypes(onnx::GraphProto& graph) {
  const ValueTypes types(graph);
  for (auto& output : *graph.mutable_output()) {
    if (output.type().value_case() != onnx::TypeProto::VALUE_NOT_SET) continue;
    if (const onnx::TypeProto* type = types.Find(output.name())) *output.mutable_type() = *type;
  }
}

// Removes names of output dimensions that no input has. Exporters make up such names
// ("Gemm_dim_0"), and they would hide the dimensions that inference finds.
void DropOutputOnlyNames(onnx::GraphProto& graph) {
  std::set<std::string> names;
  for (const auto& input : graph.input()) {
    for (const auto& dim : input.type().tensor_type().shape().dim()) names.insert(dim.dim_param());
  }
  for (auto& output : *graph.mutable_output()) {
    if (!output.type().has_tensor_type() || !output.type().tensor_type().has_shape()) continue;
    auto* shape = output.mutable_type()->mutable_tensor_type()->mutable_shape();
    for (auto& dim : *shape->mutable_dim()) {
      if (dim.has_dim_param() && names.count(dim.dim_param()) == 0) dim.clear_value();
    }
  }
}

// Writes the types with restored names into the graph, so that the next inference starts from these
// types.
void PutTypes(const NamedShapes& named, onnx::GraphProto& graph) {
  std::set<std::string> outputs;
  for (auto& output : *graph.mutable_output()) {
    outputs.insert(output.name());
    const auto it = named.find(output.name());
    if (it != named.end()) *output.mutable_type() = it->second;
  }
  for (const auto& [value, type] : named) {
    if (outputs.count(value) > 0) continue;
    auto* info = graph.add_value_info();
    info->set_name(value);
    *info->mutable_type() = type;
  }
}

// Infers the types that follow from the correct nodes of a model in which other nodes are wrong.
// The types that the model declares for its outputs are ignored, because a wrong declaration would
// stop libonnx.
void InferWhatCanBe(onnx::ModelProto& model) {
  for (auto& output : *model.mutable_graph()->mutable_output()) output.clear_type();
  const onnx::ModelProto untouched = model;
  try {
    onnx::shape_inference::InferShapes(model);
  } catch (const std::exception&) {
    model = untouched;
  }
}

// Runs inference once on a model whose value_info is empty. After a failure, `model` holds the
// types that could be inferred.
absl::Status InferOnce(const NamedShapes& named, onnx::ModelProto& model) {
  PutTypes(named, *model.mutable_graph());
  const onnx::ModelProto untouched = model;
  try {
    onnx::shape_inference::InferShapes(model, onnx::OpSchemaRegistry::Instance(),
                                       // The last argument but one selects strict mode, which
                                       // reports every contradiction. The last argument selects
                                       // data propagation, which finds shapes that are computed
                                       // from constants.
                                       onnx::ShapeInferenceOptions(false, 1, true));
    return absl::OkStatus();
  } catch (const std::exception& error) {
    // The exception may have left types in the model that are only half inferred, so InferWhatCanBe
    // starts from a copy of the model made before the call.
    model = untouched;
    InferWhatCanBe(model);
    return absl::InvalidArgumentError(absl::StrCat("types and shapes: ", error.what()));
  }
}

absl::Status InferAll(onnx::ModelProto& model) {
  const onnx::ModelProto bare = model;
  NamedShapes named;
  for (int round = 0; round < kInferenceRoundsMax; ++round) {
    // Each pass of inference starts from a copy of the model without inferred types, so that no
    // symbol that libonnx made up in an earlier pass remains.
    model = bare;
    RETURN_IF_ERROR(InferOnce(named, model));
    if (!NameReshapedDims(model.graph(), named)) break;
  }
  return absl::OkStatus();
}

// Returns the types of a model with problems, as far as they follow from the nodes without
// problems.
ValueTypes TypesBeside(const Problems& problems, const onnx::ModelProto& model) {
  onnx::ModelProto sound = model;
  onnx::GraphProto& graph = *sound.mutable_graph();
  graph.clear_value_info();
  // Nodes with problems or with subgraphs are left out of inference, because they could stop it.
  graph.clear_node();
  for (const auto& node : model.graph().node()) {
    bool sound_node = !problems.Has(node);
    for (const auto& attribute : node.attribute()) {
      sound_node = sound_node && !attribute.has_g() && attribute.graphs_size() == 0;
    }
    if (sound_node) *graph.add_node() = node;
  }
  InferWhatCanBe(sound);
  return ValueTypes(graph);
}

// Adds to `problems` the reasons why no kernel can run the node.
void AddKernelProblems(const onnx::NodeProto& node, const ValueTypes& types,
                       KernelProblems kernel_problems, Problems& problems) {
  for (const std::string& reason : kernel_problems(node, types)) problems.Add(node, reason);
}

// Checks after inference that each node's input types fit its operator, that all types are known,
// and that each node has a kernel. `inference` is the result of InferAll. If InferAll has failed,
// InferAll's error is reported together with the nodes that have wrong types.
absl::Status CheckTyped(const onnx::ModelProto& model, const absl::Status& inference,
                        KernelProblems kernel_problems) {
  const ValueTypes types(model.graph());
  const Opsets opsets = OpsetsOf(model);
  Problems problems;
  for (const auto& node : model.graph().node()) {
    const auto wrong = WrongInputTypes(node, opsets.at(node.domain()), types);
    for (const std::string& reason : wrong) problems.Add(node, reason);
    for (const auto& output : node.output()) {
      // If inference has failed, some types are unknown only because of the failure, so unknown
      // types are not reported.
      if (inference.ok() && !output.empty() && types.Find(output) == nullptr) {
        problems.Add(node, absl::StrCat("the type of its output \"", output, "\" is unknown"));
      }
    }
  }
  for (const auto* list : {&model.graph().input(), &model.graph().output()}) {
    for (const auto& value : *list) {
      if (inference.ok() && types.shape(value.name()) == nullptr) {
        problems.Add(absl::StrCat("the number of dimensions of \"", value.name(), "\" is unknown"));
      }
    }
  }
  if (!inference.ok()) problems.Add(std::string(inference.message()));
  if (problems.empty()) return absl::OkStatus();
  for (const auto& node : model.graph().node()) {
    // A node that has a problem must be corrected first, so its kernel is not checked.
    if (!problems.Has(node)) AddKernelProblems(node, types, kernel_problems, problems);
  }
  return problems.ToStatus();
}

}  // namespace

void NameNodes(onnx::GraphProto& graph) {
  std::set<std::string> used;
  for (const auto& node : graph.node()) used.insert(node.name());
  int64_t next = 0;
  for (auto& node : *graph.mutable_node()) {
    while (node.name().empty()) {
      const std::string name = absl::StrCat(node.op_type(), "_", next++);
      // If another node already has the generated name, this node stays unnamed and the loop tries
      // the next number.
      if (used.insert(name).second) node.set_name(name);
    }
  }
}

absl::Status CheckNodes(const onnx::ModelProto& model, KernelProblems kernel_problems) {
  Problems problems;
  const Opsets opsets = OpsetsOf(model);
  if (model.functions_size() > 0) {
    problems.Add("model-local functions are not supported: inline them when exporting");
  }
  CheckGraph(model.graph(), opsets, {}, problems);
  if (problems.empty()) return absl::OkStatus();
  // Missing kernels are reported together with the other problems, so that the user need export the
  // model only once more.
  const ValueTypes types = TypesBeside(problems, model);
  for (const auto& node : model.graph().node()) {
    if (IsKnown(node, opsets)) AddKernelProblems(node, types, kernel_problems, problems);
  }
  return problems.ToStatus();
}

absl::Status CheckAndInfer(onnx::ModelProto& model) {
  return CheckAndInfer(model, [](const auto&, const auto&) { return std::vector<std::string>(); });
}

absl::Status CheckAndInfer(onnx::ModelProto& model, KernelProblems kernel_problems) {
  RETURN_IF_ERROR(RegisterCohortSchemas());
  RETURN_IF_ERROR(CheckNodes(model, kernel_problems));
  // The types that the model declares for its values are dropped, because a wrong declaration would
  // hide an error.
  model.mutable_graph()->clear_value_info();
  DropOutputOnlyNames(*model.mutable_graph());
  const absl::Status inference = InferAll(model);
  FillOutputTypes(*model.mutable_graph());
  RETURN_IF_ERROR(CheckTyped(model, inference, kernel_problems));
  try {
    onnx::checker::check_model(model);
  } catch (const std::exception& error) {
    return absl::InvalidArgumentError(
        absl::StrCat("the model breaks an ONNX rule: ", error.what()));
  }
  return absl::OkStatus();
}

}  // namespace cohort
