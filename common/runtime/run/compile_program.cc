#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/base/status.h"
#include "common/program/graph_builder.h"
#include "common/program/tensor_proto.h"
#include "common/runtime/cuda/cuda_stream.h"
#include "common/runtime/run/compiled_program.h"
#include "common/runtime/run/fusion.h"
#include "common/runtime/run/placement.h"
#include "common/runtime/run/program_runner.h"

namespace cohort {

namespace {

// The versions of ONNX whose operators the kernels follow. common/program converts older models.
constexpr int64_t kMinOnnxOpset = 13;
constexpr int64_t kMaxOnnxOpset = 17;
constexpr size_t kMaxNodes = 1 << 20;

std::string OpName(const onnx::NodeProto& node) {
  return node.domain().empty() ? node.op_type() : absl::StrCat(node.domain(), ".", node.op_type());
}

std::string NodeLabel(const onnx::NodeProto& node) {
  const std::string name = !node.name().empty()     ? node.name()
                           : node.output_size() > 0 ? node.output(0)
                                                    : "";
  return absl::StrCat("node '", name, "' (", OpName(node), ")");
}

// Compiles one graph. Lives for one call of CompileProgram. Thread-compatible.
class Compiler {
 public:
  Compiler(const onnx::ModelProto& model, const KernelRegistry& registry,
           const DeviceTarget* device)
      : model_(model),
        registry_(registry),
        device_(device),
        types_(model.graph()),
        program_(std::make_shared<CompiledProgram>()) {}

  absl::StatusOr<std::shared_ptr<const CompiledProgram>> Run() {
    CheckOpset();
    nodes_.assign(model_.graph().node().begin(), model_.graph().node().end());
    if (nodes_.size() > kMaxNodes) {
      return absl::InvalidArgumentError(absl::StrCat("more than ", kMaxNodes, " nodes"));
    }
    FuseNodes(model_.graph(), registry_, nodes_);
    AddInputs();
    AddConstants();
    RETURN_IF_ERROR(Errors());
    IndexOutputs();
    RETURN_IF_ERROR(Errors());
    OrderNodes();
    RETURN_IF_ERROR(Errors());
    PlaceOrdered();
    BindKernels();
    RETURN_IF_ERROR(Listed(refusals_));
    // Waits until the device has copies of the weights.
    if (device_ != nullptr) RETURN_IF_ERROR(device_->stream->Wait());
    FindLastUses();
    FindGivers();
    return std::shared_ptr<const CompiledProgram>(std::move(program_));
  }

 private:
  void CheckOpset();
  void AddInputs();
  void AddConstants();
  void IndexOutputs();
  void OrderNodes();
  void PlaceOrdered();
  bool IsWeightCopied(const PlacedNode& placed);
  void BindKernels();
  void BindKernel(const PlacedNode& placed, const std::set<std::string>& read);
  void FindLastUses();
  void FindGivers();

  // Returns the index of the value `name`, or -1 if no input, weight or node defines a value of
  // this name.
  int Find(const std::string& name) const {
    const auto it = values_.find(name);
    return it == values_.end() ? -1 : it->second;
  }
  // Gives the value `name` the next free index and returns the index. Returns -1 if the name has an
  // index already.
  int Define(const std::string& name, bool on_device = false) {
    const int value = static_cast<int>(program_->value_names.size());
    if (!values_.emplace(name, value).second) return -1;
    program_->value_names.push_back(name);
    program_->on_device.push_back(on_device);
    return value;
  }
  void Error(const std::string& message) { errors_.push_back(message); }
  absl::Status Errors() const { return Listed(errors_); }
  static absl::Status Listed(const std::vector<std::string>& messages) {
    if (messages.empty()) return absl::OkStatus();
    return absl::InvalidArgumentError(absl::StrJoin(messages, "; "));
  }

  const onnx::ModelProto& model_;
  const KernelRegistry& registry_;
  const DeviceTarget* const device_;  // the device to compile for; null: the processor
  const ValueTypes types_;
  std::shared_ptr<CompiledProgram> program_;
  std::vector<onnx::NodeProto> nodes_;
  std::vector<int> order_;
  PlacedGraph placed_;
  std::map<std::string, int> values_;
  // For each value, the number of the node that computes the value.
  std::map<std::string, int> producer_;
  // Errors in the graph itself. The compilation ends with them after the phase that found them.
  std::vector<std::string> errors_;
  // Reasons why this runtime cannot run a node or an input. One error at the end reports all of
  // them.
  std::vector<std::string> refusals_;
};

void Compiler::CheckOpset() {
  for (const onnx::OperatorSetIdProto& opset : model_.opset_import()) {
    if (!opset.domain().empty() && opset.domain() != "ai.onnx") continue;
    if (opset.version() < kMinOnnxOpset || opset.version() > kMaxOnnxOpset) {
      Error(absl::StrCat("the model uses ONNX opset ", opset.version(), "; this runtime has ",
                         kMinOnnxOpset, " to ", kMaxOnnxOpset,
                         " (convert the model to one of these)"));
    }
  }
}

void Compiler::AddInputs() {
  for (const onnx::ValueInfoProto& input : model_.graph().input()) {
    // Graph inputs are defined first, so they have the lowest value indices.
    InputSpec spec;
    spec.name = input.name();
    spec.value = Define(input.name());
    if (spec.value < 0) Error(absl::StrCat("two graph inputs are named '", input.name(), "'"));
    const onnx::TypeProto_Tensor& type = input.type().tensor_type();
    if (type.elem_type() != 0) {
      const absl::StatusOr<DType> dtype = DTypeFromNumber(type.elem_type());
      if (dtype.ok()) {
        spec.dtype = *dtype;
      } else {
        refusals_.push_back(absl::StrCat("input '", input.name(), "': ", dtype.status().message()));
      }
    }
    spec.has_shape = type.has_shape();
    for (const onnx::TensorShapeProto_Dimension& dim : type.shape().dim()) {
      spec.dims.push_back({dim.has_dim_value() ? dim.dim_value() : -1, dim.dim_param()});
    }
    program_->inputs.push_back(std::move(spec));
  }
}

// Adds the weights. An initializer with the name of a graph input is only the input's default;
// callers always feed inputs, so the default is skipped.
void Compiler::AddConstants() {
  for (const onnx::TensorProto& initializer : model_.graph().initializer()) {
    if (Find(initializer.name()) >= 0) continue;
    absl::StatusOr<Tensor> tensor = FromTensorProto(initializer);
    if (!tensor.ok()) {
      Error(absl::StrCat("weight '", initializer.name(), "': ", tensor.status().message()));
      continue;
    }
    program_->constants.push_back({Define(initializer.name()), *std::move(tensor)});
  }
}

// Records for each value the node that defines the value. A value that is defined twice is an
// error.
void Compiler::IndexOutputs() {
  for (size_t i = 0; i < nodes_.size(); ++i) {
    for (const std::string& output : nodes_[i].output()) {
      if (output.empty()) continue;
      if (Find(output) >= 0 || !producer_.emplace(output, static_cast<int>(i)).second) {
        Error(absl::StrCat(NodeLabel(nodes_[i]), " defines '", output, "' a second time"));
      }
    }
  }
}

// Orders the nodes depth first from the graph outputs, which leaves out nodes that no output needs.
// If the model's own order of the remaining nodes is topological, they get this order; otherwise
// they keep the depth-first order.
void Compiler::OrderNodes() {
  enum : char { kNew, kOpen, kDone };
  std::vector<char> state(nodes_.size(), kNew);
  std::vector<int> stack;
  const auto visit = [&](const std::string& value, const std::string& reader) {
    const auto it = producer_.find(value);
    if (it == producer_.end()) {
      if (Find(value) < 0)
        Error(absl::StrCat(reader, " reads '", value, "', which nothing defines"));
      return;
    }
    const size_t node = static_cast<size_t>(it->second);
    // A node that is reached again before its inputs have been ordered depends on itself.
    if (state[node] == kOpen) Error(absl::StrCat(NodeLabel(nodes_[node]), " is part of a cycle"));
    if (state[node] == kNew) stack.push_back(it->second);
  };
  for (const onnx::ValueInfoProto& output : model_.graph().output()) {
    visit(output.name(), "the graph's output list");
    while (!stack.empty() && errors_.empty()) {
      const int node = stack.back();
      char& node_state = state[static_cast<size_t>(node)];
      // The node is on top of the stack for the second time: all its inputs have been ordered, so
      // the node comes next.
      if (node_state != kNew) {
        stack.pop_back();
        if (node_state == kOpen) order_.push_back(node);
        node_state = kDone;
        continue;
      }
      node_state = kOpen;
      const onnx::NodeProto& proto = nodes_[static_cast<size_t>(node)];
      for (const std::string& input : proto.input()) {
        if (!input.empty()) visit(input, NodeLabel(proto));
      }
    }
  }
  // The model's order is kept if every node comes after the nodes that it reads from.
  std::vector<int> position(nodes_.size(), -1);
  std::vector<int> sorted = order_;
  std::sort(sorted.begin(), sorted.end());
  for (size_t i = 0; i < sorted.size(); ++i) {
    for (const std::string& input : nodes_[static_cast<size_t>(sorted[i])].input()) {
      const auto it = producer_.find(input);
      if (it != producer_.end() && position[static_cast<size_t>(it->second)] < 0) return;
    }
    position[static_cast<size_t>(sorted[i])] = static_cast<int>(i);
  }
  order_ = std::move(sorted);
}

void Compiler::PlaceOrdered() {
  std::vector<onnx::NodeProto> ordered;
  for (const int index : order_) ordered.push_back(std::move(nodes_[static_cast<size_t>(index)]));
  if (device_ != nullptr) {
    placed_ = PlaceNodes(model_.graph(), ordered, device_->kernels, device_->left_there);
    return;
  }
  for (onnx::NodeProto& node : ordered) placed_.nodes.push_back({std::move(node), false});
  for (const onnx::ValueInfoProto& output : model_.graph().output()) {
    placed_.outputs.push_back(output.name());
  }
}

// If the node `placed` copies a weight to the device, makes the copy now and returns true. The node
// is then not needed in any run.
bool Compiler::IsWeightCopied(const PlacedNode& placed) {
  if (placed.node.op_type() != kToDevice || placed.node.domain() != kRuntimeDomain) return false;
  const int from = Find(placed.node.input(0));
  for (size_t i = 0; i < program_->constants.size(); ++i) {
    if (program_->constants[i].value != from) continue;
    Tensor copy = device_->stream->Upload(program_->constants[i].tensor);
    program_->constants.push_back({Define(placed.node.output(0), true), std::move(copy)});
    return true;
  }
  return false;
}

// Binds a kernel to each node, and gives an index to each output that another node or the graph's
// output list reads.
void Compiler::BindKernels() {
  std::set<std::string> read;
  for (const PlacedNode& placed : placed_.nodes) {
    read.insert(placed.node.input().begin(), placed.node.input().end());
  }
  read.insert(placed_.outputs.begin(), placed_.outputs.end());
  for (const PlacedNode& placed : placed_.nodes) {
    if (!IsWeightCopied(placed)) BindKernel(placed, read);
  }
}

void Compiler::BindKernel(const PlacedNode& placed, const std::set<std::string>& read) {
  const onnx::NodeProto& proto = placed.node;
  const auto refuse = [&](absl::string_view reason) {
    refusals_.push_back(absl::StrCat(NodeLabel(proto), reason));
  };
  // Every reason against a node is collected, so that one error lists all nodes that do not fit.
  const KernelRegistry& registry = placed.on_device ? device_->kernels : registry_;
  const KernelDefinition* definition = registry.FindFor(proto);
  if (definition == nullptr) return refuse(" has no kernel");
  const absl::Status arity = CheckArity(proto, definition->signature);
  if (!arity.ok()) return refuse(absl::StrCat(": ", arity.message()));
  const std::vector<std::string> lacking = LackingTypes(proto, definition->signature, types_);
  if (!lacking.empty()) return refuse(absl::StrCat(": ", absl::StrJoin(lacking, ", ")));
  absl::StatusOr<std::unique_ptr<Kernel>> kernel = definition->make(proto);
  if (!kernel.ok()) return refuse(absl::StrCat(": ", kernel.status().message()));
  CompiledNode node;
  node.name = !proto.name().empty() ? proto.name() : proto.output(0);
  node.op = OpName(proto);
  node.on_device = placed.on_device;
  node.kernel = *std::move(kernel);
  for (const std::string& input : proto.input()) node.inputs.push_back(Find(input));
  for (const std::string& output : proto.output()) {
    // An output that nothing reads gets no value, so that its kernel need not compute it.
    const bool kept = read.count(output) > 0 && !output.empty();
    const bool on_device = placed.on_device && !definition->outputs_on_host;
    node.outputs.push_back(kept ? Define(output, on_device) : -1);
  }
  program_->nodes.push_back(std::move(node));
}

// Computes the last node that reads each value, and for each node the values that no later node
// reads.
void Compiler::FindLastUses() {
  program_->last_use.assign(program_->value_names.size(), -1);
  std::vector<int>& last_use = program_->last_use;
  const auto end = static_cast<int>(program_->nodes.size());
  for (int i = 0; i < end; ++i) {
    const CompiledNode& node = program_->nodes[static_cast<size_t>(i)];
    for (const int input : node.inputs) {
      if (input < 0) continue;
      // The device may read a value in host memory until the wait after the last node. So the
      // value's memory is neither overwritten nor released before that wait.
      const bool copied = node.on_device && !program_->on_device[static_cast<size_t>(input)];
      int& last = last_use[static_cast<size_t>(input)];
      last = std::max(last, copied ? end : i);
    }
  }
  for (const std::string& output : placed_.outputs) {
    const int value = Find(output);
    program_->outputs.push_back(value);
    last_use[static_cast<size_t>(value)] = CompiledProgram::kAfterTheEnd;
  }
  // Each value dies at the last node that reads it, unless it lives to the end of the run.
  for (size_t value = 0; value < last_use.size(); ++value) {
    if (last_use[value] < 0 || last_use[value] >= end) continue;
    program_->nodes[static_cast<size_t>(last_use[value])].dying.push_back(static_cast<int>(value));
  }
}

// Records for each node the graph outputs that the node computes, so that a run can pass on an
// output as soon as it is computed.
void Compiler::FindGivers() {
  std::map<int, CompiledNode*> giver;  // for each value, the node that computes the value
  for (CompiledNode& node : program_->nodes) {
    for (const int value : node.outputs) {
      if (value >= 0) giver[value] = &node;
    }
  }
  for (size_t i = 0; i < program_->outputs.size(); ++i) {
    const auto found = giver.find(program_->outputs[i]);
    (found == giver.end() ? program_->given : found->second->gives).push_back(i);
  }
}

}  // namespace

absl::StatusOr<std::shared_ptr<const CompiledProgram>> CompileProgram(
    const onnx::ModelProto& model, const KernelRegistry& registry, const DeviceTarget* device) {
  return Compiler(model, registry, device).Run();
}

}  // namespace cohort
