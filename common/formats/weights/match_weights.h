#pragma once

// The way from the values of a file to the variables of a model. A variable is tried in this order:
// 1. the name that `renames` gives;
// 2. in .weights.h5 and .keras: the layer and the position in it, by the layer's name if the file
//    has it, else by the group that Keras makes of its class;
// 3. the whole name, then the last two parts of it ("d1/kernel" of "sequential/d1/kernel"), if only
//    one value has them;
// 4. in legacy .h5: the position, if the file and the model have as many layers with weights, since
//    Keras itself goes by positions there.
// Optimizer's values and others are never taken for a variable.

#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/formats/weights/weight_file.h"

namespace cohort {

// A variable that wants a value.
struct WantedWeight {
  std::string name;  // "d1/kernel"
  Shape shape;
  std::string layer = {};  // the name of its layer
  std::string group = {};  // KerasLayerGroups; empty: not known
  int position = 0;        // among the layer's variables
};

// The place of a variable's value, as a user names it.
struct WeightRename {
  std::string name;  // in the file
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

// Matches variables, of one layer after the other, with the file's values. Errors: INVALID_ARGUMENT
// for a rename of a variable that is not wanted, to a value that the file does not have, or with
// a transpose that is no order of the axes.
absl::StatusOr<WeightMatches> MatchWeights(absl::Span<const WantedWeight> wanted,
                                           const WeightFile& file,
                                           const std::map<std::string, WeightRename>& renames);

// Reads the value of a match as its variable has it: transposed, and with the variable's type, if
// both are floating point. Errors: those of WeightSource::Read; INVALID_ARGUMENT for a type that
// cannot become the variable's.
absl::StatusOr<Tensor> ReadMatch(const WeightFile& file, const WeightMatch& match, DType dtype);

}  // namespace cohort
