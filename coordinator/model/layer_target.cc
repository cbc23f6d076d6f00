#include "coordinator/model/layer_target.h"

namespace cohort {

// The order of logits is never an image's: what gives them has turned it over.
ModelOutput ChannelsLast(const ModelOutput& output, GraphBuilder& graph) {
  if (!output.channels_first) return output;
  return {graph.Op("Transpose", {output.value}, {IntsAttribute("perm", {0, 2, 3, 1})}), ""};
}

}  // namespace cohort
