#pragma once

// A model as the table that Keras's summary() prints: layers, what they give, their parameters,
// what they are connected to, and whether they are trained.

#include <string>

#include "coordinator/inspect/model_shapes.h"
#include "coordinator/network/model_spec.h"

namespace cohort {

// Returns the table with the totals of parameters. Where the shapes are not known, "?" stands for
// them and for the parameters, and the last line says what to do.
std::string ModelSummary(const ModelSpec& model, const ModelShapes& shapes);

// Returns the name of a tensor as Keras does: "dense[0][0]" is output 0 of the first call of the
// layer. "(input)" is an input that no InputLayer stands for.
std::string TensorText(const ModelSpec& model, const TensorRef& tensor);

// Returns the shapes of a call's outputs: "(None, 8)", or "[(None, 8), (None, 4)]" if there are
// several, or "?".
std::string OutputText(const ModelShapes& shapes, size_t call);

}  // namespace cohort
