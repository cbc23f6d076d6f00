#pragma once

// A picture of a model, as keras.utils.plot_model draws one: a box for each call of a layer, and
// arrows from top to bottom. The picture is SVG, which every browser shows.
//
// A call lies in the first row below all calls that give its inputs. An arrow that passes rows has
// a bend in each of them, which takes a place among the boxes, so that arrows go around boxes.

#include <string>

#include "absl/status/statusor.h"
#include "coordinator/inspect/model_shapes.h"
#include "coordinator/network/model_spec.h"

namespace cohort {

// Upper bounds of a picture: the boxes, and the bends of all arrows. An arrow for whose bends there
// is no room goes straight.
inline constexpr size_t kBoxesMax = 2000;
inline constexpr size_t kBendsMax = 20000;

// Returns the SVG. Errors: RESOURCE_EXHAUSTED for a model of more than kBoxesMax calls.
absl::StatusOr<std::string> ModelPlot(const ModelSpec& model, const ModelShapes& shapes);

}  // namespace cohort
