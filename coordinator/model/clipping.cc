#include "coordinator/model/clipping.h"

#include <utility>

#include "common/base/status.h"
#include "common/program/cohort_ops.h"
#include "common/program/graph_builder.h"
#include "common/program/program.h"

namespace cohort {
namespace {

onnx::AttributeProto Limit(const char* name, double value) {
  return FloatAttribute(name, static_cast<float>(value));
}

}  // namespace

absl::StatusOr<GradientGraph> ClipGradients(GradientGraph graph, const ClippingSpec& clipping) {
  const int count = static_cast<int>(graph.gradients.size());
  const bool clips =
      clipping.clipnorm > 0 || clipping.global_clipnorm > 0 || clipping.clipvalue > 0;
  if (!clips || count == 0) return graph;
  auto* const outputs = graph.model.mutable_graph()->mutable_output();
  outputs->DeleteSubrange(outputs->size() - count, count);
  GraphBuilder builder(std::move(graph.model));
  builder.SetNamePrefix("clip/");
  if (clipping.global_clipnorm > 0) {
    graph.gradients =
        builder.OpN("ClipByNorm", graph.gradients, count,
                    {Limit("clip_norm", clipping.global_clipnorm)}, kCohortDomain);
  } else {
    for (std::string& gradient : graph.gradients) {
      gradient = clipping.clipnorm > 0
                     ? builder.Op("ClipByNorm", {gradient}, {Limit("clip_norm", clipping.clipnorm)},
                                  kCohortDomain)
                     : builder.Op("ClipByValue", {gradient},
                                  {Limit("clip_value", clipping.clipvalue)}, kCohortDomain);
    }
  }
  for (const std::string& gradient : graph.gradients) builder.Output(gradient);
  ASSIGN_OR_RETURN(graph.model, builder.Finish());
  return graph;
}

}  // namespace cohort
