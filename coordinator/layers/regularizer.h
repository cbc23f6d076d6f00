#pragma once

// Keras's regularizers: penalties that a variable, or a layer's output, adds to the loss.

#include <string>

#include "coordinator/json/json_reader.h"
#include "coordinator/layers/keras_file.h"

namespace cohort {

// A penalty: l1 * sum|x| + l2 * sum(x^2), or one for rows or columns that are not orthogonal.
struct RegularizerSpec {
  double l1 = 0;
  double l2 = 0;
  double orthogonal = 0;  // OrthogonalRegularizer's factor
  bool columns = false;   // true: the columns are penalized, not the rows

  bool is_none() const { return l1 == 0 && l2 == 0 && orthogonal == 0; }
};

// Reads a class form, or the name of a regularizer with Keras's defaults.
void ReadRegularizer(const JsonPlace& place, RegularizerSpec& spec);

// Returns whether this version divides what an output adds to the loss by the number of examples.
bool IsPerExample(const KerasVersion& keras);

}  // namespace cohort
