#pragma once

// Models as layers of other models.

#include <vector>

#include "coordinator/layers/layer_class.h"

namespace cohort {

// Returns the table of layer classes with Sequential and Functional models.
const std::vector<LayerClass>& NetworkClasses();

}  // namespace cohort
