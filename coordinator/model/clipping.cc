#include "coordinator/model/clipping.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/status.h"
#include "common/program/cohort_ops.h"
#include "common/program/graph_builder.h"
#include "common/program/program.h"

namespace cohort {
namespace {

onnx::AttributeProto Limit(const char* name, double value) {
  return FloatAttribute(name, static_cast<float>(value));
}

std::vector<std::string> AddClipping(const std::vector<std::string>& gradients,
                                     const ClippingSpec& clipping, GraphBuilder& builder) {
  builder.SetNamePrefix("clip/");
  if (clipping.global_clipnorm > 0) {
    return builder.OpN("ClipByNorm", gradients, static_cast<int>(gradients.size()),
                       {Limit("clip_norm", clipping.global_clipnorm)}, kCohortDomain);
  }
  std::vector<std::string> clipped;
  for (const std::string& gradient : gradients) {
    clipped.push_back(clipping.clipnorm > 0
                          ? builder.Op("ClipByNorm", {gradient},
                                       {Limit("clip_norm", clipping.clipnorm)}, kCohortDomain)
                          : builder.Op("ClipByValue", {gradient},
                                       {Limit("clip_value", clipping.clipvalue)}, kCohortDomain));
  }
  return clipped;
}

}  // namespace

bool Clips(const ClippingSpec& clipping) {
  return clipping.clipnorm > 0 || clipping.global_clipnorm > 0 || clipping.clipvalue > 0;
}

absl::StatusOr<GradientGraph> ClipGradients(GradientGraph graph, const ClippingSpec& clipping) {
  const int count = static_cast<int>(graph.gradients.size());
  if (!Clips(clipping) || count == 0) return graph;
  auto* const outputs = graph.model.mutable_graph()->mutable_output();
  outputs->DeleteSubrange(outputs->size() - count, count);
  GraphBuilder builder(std::move(graph.model));
  graph.gradients = AddClipping(graph.gradients, clipping, builder);
  for (const std::string& gradient : graph.gradients) builder.Output(gradient);
  ASSIGN_OR_RETURN(graph.model, builder.Finish());
  return graph;
}

absl::StatusOr<onnx::ModelProto> ClippingGraph(const std::vector<std::string>& gradients,
                                               const std::vector<VariableSpec>& variables,
                                               const ClippingSpec& clipping) {
  GraphBuilder builder("clip");
  for (size_t i = 0; i < gradients.size(); ++i) {
    const Shape& shape = variables[i].shape;
    std::vector<int64_t> dims(shape.dims().begin(), shape.dims().end());
    if (!dims.empty()) dims[0] = -1;  // of a table the rows of the batch
    builder.Input(gradients[i], variables[i].dtype, dims, absl::StrCat("R", i));
  }
  for (const std::string& clipped : AddClipping(gradients, clipping, builder)) {
    builder.Output(clipped);
  }
  return builder.Finish();
}

}  // namespace cohort
