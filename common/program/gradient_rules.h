#pragma once

// A gradient rule says, for one operator, how the gradients of a node's outputs become gradients of
// its inputs, as nodes added to the graph. A rule is called once per node on the path from an input
// to the loss; it sets the gradient of each input that is wanted and differentiable, and skips the
// work for the others.

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

// The forward graph as rules see it: types, and values known before running. Immutable;
// thread-safe.
class ForwardGraph {
 public:
  // Keeps a reference to `model`, which outlives the graph.
  explicit ForwardGraph(const onnx::ModelProto& model);

  const ValueTypes& types() const { return types_; }
  // Returns the elements of a weight or of a Constant node if they are integers.
  std::optional<std::vector<int64_t>> ConstantInts(const std::string& value) const;

 private:
  const ValueTypes types_;
  std::map<std::string, const onnx::TensorProto*> constants_;
};

// A node, the gradients of its outputs ("" if none flows) and the gradients that its rule sets.
// Thread-compatible.
class GradientSite {
 public:
  // Keeps references; all of them outlive the site.
  GradientSite(const onnx::NodeProto& node, const ForwardGraph& forward, GraphBuilder& builder,
               std::vector<std::string> output_gradients, std::vector<bool> wanted);

  const onnx::NodeProto& node() const { return node_; }
  const ForwardGraph& forward() const { return forward_; }
  // Returns the name of input `i`, "" for an optional input that is absent.
  const std::string& input(int i) const;
  const std::string& output(int i) const;
  const std::string& dy(int output = 0) const { return dy_[static_cast<size_t>(output)]; }
  bool Wants(int input) const;

  int64_t Int(const std::string& attribute, int64_t otherwise) const;
  float Float(const std::string& attribute, float otherwise) const;
  const onnx::AttributeProto* Attribute(const std::string& name) const;
  // Copies those of these attributes that the node has.
  std::vector<onnx::AttributeProto> CopyAttributes(absl::Span<const std::string> names) const;

  std::string Onnx(const std::string& op, std::vector<std::string> inputs,
                   std::vector<onnx::AttributeProto> attributes = {});
  std::string Cohort(const std::string& op, std::vector<std::string> inputs,
                     std::vector<onnx::AttributeProto> attributes = {});
  // Adds a scalar of the element type of output 0.
  std::string Scalar(double value);
  std::string Int64s(absl::Span<const int64_t> values);
  GraphBuilder& builder() { return builder_; }

  void Set(int input, const std::string& gradient);
  // Sets a gradient of output 0's shape, reduced to the shape of `input`, which may have been
  // broadcast.
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

// Errors: INVALID_ARGUMENT with the reason why this node cannot be differentiated.
using GradientRule = absl::Status (*)(GradientSite& site);

// Key: operator, with "cohort." before those of the cohort domain.
using GradientRules = std::map<std::string, GradientRule>;

GradientRules AllGradientRules();
void AddMathRules(GradientRules& rules);     // gradient_rules_math.cc: arithmetic, activations
void AddProductRules(GradientRules& rules);  // gradient_rules_product.cc: MatMul, Gemm
void AddTensorRules(GradientRules& rules);   // gradient_rules_tensor.cc: shape, joins, reductions
void AddLossRules(GradientRules& rules);     // gradient_rules_loss.cc: losses, Dropout
void AddImageRules(GradientRules& rules);    // gradient_rules_image.cc: windows, normalization

// Returns whether the operator's output does not depend smoothly on any input: no gradient flows,
// as in Keras. Operators with integer or bool outputs need no listing.
bool StopsGradient(const onnx::NodeProto& node);

}  // namespace cohort
