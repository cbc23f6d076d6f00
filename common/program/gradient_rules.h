#pragma once

// A gradient rule computes, for nodes of one operator, the gradients of the node's inputs from the
// gradients of the node's outputs. To do so, the rule adds nodes to the graph. The rule is called
// once for each node on the path from an input to the loss. The rule sets the gradient of each
// input that is wanted and differentiable, and skips the work for other inputs.

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "common/program/graph_builder.h"
#include "common/program/value_types.h"
#include "onnx/onnx_pb.h"

namespace cohort {

// The forward graph as gradient rules see it: the types of its values, and the values that are
// constant. Immutable; thread-safe.
class ForwardGraph {
 public:
  // Keeps a reference to `model`, which must outlive this object.
  explicit ForwardGraph(const onnx::ModelProto& model);

  const ValueTypes& types() const { return types_; }
  // Returns the elements of a weight or of a Constant node. Returns nothing for any other value,
  // and for elements that are not integers.
  std::optional<std::vector<int64_t>> ConstantInts(const std::string& value) const;

 private:
  const ValueTypes types_;
  std::map<std::string, const onnx::TensorProto*> constants_;
};

// One node with the gradients of its outputs ("" for an output without a gradient), and the input
// gradients that the node's rule sets. Thread-compatible.
class GradientSite {
 public:
  // Keeps references to `node`, `forward` and `builder`, which must outlive the GradientSite.
  GradientSite(const onnx::NodeProto& node, const ForwardGraph& forward, GraphBuilder& builder,
               std::vector<std::string> output_gradients, std::vector<bool> wanted);

  const onnx::NodeProto& node() const { return node_; }
  const ForwardGraph& forward() const { return forward_; }
  // Returns the name of input `i`, or "" for an absent optional input.
  const std::string& input(int i) const;
  const std::string& output(int i) const;
  const std::string& dy(int output = 0) const { return dy_[static_cast<size_t>(output)]; }
  bool Wants(int input) const;

  int64_t Int(const std::string& attribute, int64_t otherwise) const;
  float Float(const std::string& attribute, float otherwise) const;
  const onnx::AttributeProto* Attribute(const std::string& name) const;
  // Returns copies of the node's attributes whose names are in `names`.
  std::vector<onnx::AttributeProto> CopyAttributes(absl::Span<const std::string> names) const;

  std::string Onnx(const std::string& op, std::vector<std::string> inputs,
                   std::vector<onnx::AttributeProto> attributes = {});
  std::string Cohort(const std::string& op, std::vector<std::string> inputs,
                     std::vector<onnx::AttributeProto> attributes = {});
  // Adds a scalar constant that has the element type of the node's output 0. Returns the constant's
  // name.
  std::string Scalar(double value);
  std::string Int64s(absl::Span<const int64_t> values);
  GraphBuilder& builder() { return builder_; }

  void Set(int input, const std::string& gradient);
  // Sets the gradient of an input that may have been broadcast. `gradient` has the shape of output
  // 0 and is reduced to the shape of the input.
  void SetReduced(int input, const std::string& gradient);
  const std::vector<std::string>& dx() const { return dx_; }

 private:
  const onnx::NodeProto& node_;
  const ForwardGraph& forward_;
  GraphBuilder& builder_;
  const std::vector<std::string> dy_;
  const std::vector<bool> wanted_;
  std::vector<std::string> dx_;
};

// A function that adds the gradient nodes for one node of an operator. Errors: INVALID_ARGUMENT
// with the reason why the node cannot be differentiated.
using GradientRule = absl::Status (*)(GradientSite& site);

// One operator's gradient: its rule, and the outputs that the rule reads although a forward node
// may lack them.
struct OperatorGradient {
  GradientRule rule = nullptr;
  // Names for the outputs from output 1 on. If a forward node lacks output i, AddGradients adds the
  // output with a name made from needs[i - 1]. "" stands for an output that the rule does not read.
  std::vector<std::string> needs = {};
};

// The gradients of operators, by the operator's name. The name of an operator of the cohort domain
// begins with "cohort.".
using GradientRules = std::map<std::string, OperatorGradient>;

// Adds the gradients of elementwise and clipping operators (gradients_elementwise.cc).
void AddElementwiseGradients(GradientRules& rules);
// Adds the gradients of reductions (gradients_reduce.cc).
void AddReduceGradients(GradientRules& rules);
// Adds the gradients of operators that move, copy or select elements (gradients_movement.cc).
void AddMovementGradients(GradientRules& rules);
// Adds the gradients of products of tensors (gradients_products.cc).
void AddProductGradients(GradientRules& rules);
// Adds the gradients of convolution, pooling and resizing (gradients_image.cc).
void AddImageGradients(GradientRules& rules);
// Adds the gradients of normalization (gradients_normalization.cc).
void AddNormalizationGradients(GradientRules& rules);
// Adds the gradients of recurrent layers (gradients_recurrent.cc).
void AddRecurrentGradients(GradientRules& rules);
// Adds the gradients of losses, metrics and Dropout (gradients_loss.cc).
void AddLossGradients(GradientRules& rules);
// Adds the gradients of operators at which the replicas of a step meet (gradients_replica.cc).
void AddReplicaGradients(GradientRules& rules);

// Returns the gradients of all operators that have one.
GradientRules AllGradientRules();

// Returns true if no output of the node depends smoothly on an input. As in Keras, no gradient
// flows through such a node. No gradient flows through integers and bools, so the function may
// return false for an operator that has only such outputs.
bool StopsGradient(const onnx::NodeProto& node);

}  // namespace cohort
