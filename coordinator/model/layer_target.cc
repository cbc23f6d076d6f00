#include "coordinator/model/layer_target.h"

namespace cohort {

// Brings the output into Keras's order. Logits need nothing: the layer that gives logits has
// brought its value into Keras's order.
ModelOutput ChannelsLast(const ModelOutput& output, GraphBuilder& graph) {
  if (!output.channels_first) return output;
  return {graph.Op("Transpose", {output.value}, {IntsAttribute("perm", {0, 2, 3, 1})}), ""};
}

}  // namespace cohort
