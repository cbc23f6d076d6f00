#pragma once

// Matches the values of a file with the variables of a model. A variable gets the first value that
// one of these rules finds:
// 1. the value that `renames` names;
// 2. in .weights.h5 and .keras: the value of the same layer and position. The layer is found by its
//    name if the file has names, else by the group that Keras makes of its class;
// 3. the value with the whole name of the variable, else the only value with the same last two
//    parts ("d1/kernel" of "sequential/d1/kernel");
// 4. in legacy .h5: the value at the same position, if the file and the model have equally many
//    layers with weights. Keras itself goes by positions there.
// Values of optimizers, and other values that are not weights, are never matched.

#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/formats/weights/weight_file.h"

namespace cohort {

// A variable that needs a value.
struct WantedWeight {
  std::string name;  // "d1/kernel"
  Shape shape;
  std::string layer = {};  // the name of its layer
  std::string group = {};  // the layer's group (KerasLayerGroups); empty: not known
  int position = 0;        // position of the variable among the layer's variables
};

// The value that a user names for a variable.
struct WeightRename {
  std::string name;  // name of the value in the file
  std::vector<int>
      transpose;  // axis i of the variable is axis transpose[i] of the value; may be {}
};

struct WeightMatch {
  size_t wanted = 0;  // index of the variable
  size_t entry = 0;   // index in WeightFile::entries
  std::vector<int> transpose;
};

struct WeightMatches {
  std::vector<WeightMatch> matched;
  std::vector<std::string> missing;     // variables without a value
  std::vector<std::string> left_over;   // values of layers that no variable takes
  std::vector<std::string> mismatched;  // variables whose value has another shape, with both shapes
};

// Matches variables with the file's values. The variables of one layer stand side by side. Errors:
// INVALID_ARGUMENT for a rename of an unknown variable or to an unknown value, and for a transpose
// that does not name each axis once.
absl::StatusOr<WeightMatches> MatchWeights(absl::Span<const WantedWeight> wanted,
                                           const WeightFile& file,
                                           const std::map<std::string, WeightRename>& renames);

// Reads the value of a match in the form of its variable: transposed, and converted to the
// variable's type if both types are floating point. Errors: those of WeightSource::Read;
// INVALID_ARGUMENT for a type that cannot be converted.
absl::StatusOr<Tensor> ReadMatch(const WeightFile& file, const WeightMatch& match, DType dtype);

}  // namespace cohort
