#include "coordinator/network/output_names.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace cohort {

std::vector<std::string> OutputNames(const ModelSpec& model) {
  if (!model.output_names.empty()) return model.output_names;
  std::vector<std::string> names;
  for (const TensorRef& output : model.outputs) {
    // An output without a call, an input that is returned unchanged, does not occur in the
    // outermost model, whose InputLayers are calls.
    if (output.call >= model.calls.size()) return {};
    const std::string& layer = model.layers[model.calls[output.call].layer].name;
    std::string name = layer;
    for (int i = 1; std::find(names.begin(), names.end(), name) != names.end(); ++i) {
      name = absl::StrCat(layer, "_", i);
    }
    names.push_back(std::move(name));
  }
  return names;
}

}  // namespace cohort
