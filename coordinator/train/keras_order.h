#pragma once

// The order of the layers of a functional model in Keras. A person may write the layers in any
// order in which they can be computed. Keras orders them by their distance from the outputs, the
// furthest first, and layers of one distance as a walk from the outputs to the inputs meets them.
// Files of weights count layers in this order.

#include "nlohmann/json_fwd.hpp"

namespace cohort {

// Brings the layers of a model, and those of the functional models in it, into Keras's order.
// `model` is in the canonical form of ModelToJson.
void OrderAsKeras(nlohmann::ordered_json& model);

}  // namespace cohort
