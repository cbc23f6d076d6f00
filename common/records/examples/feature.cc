#include "common/records/examples/feature.h"

#include <algorithm>

namespace cohort {

absl::string_view FeatureTypeName(FeatureType type) {
  switch (type) {
    case FeatureType::kInt64:
      return "int64";
    case FeatureType::kFloat:
      return "float32";
    case FeatureType::kBytes:
      return "string";
  }
  return "unknown";
}

void FeatureValues::Truncate(size_t count) {
  ints.resize(std::min(ints.size(), count));
  floats.resize(std::min(floats.size(), count));
  strings.resize(std::min(strings.size(), count));
}

void FeatureValues::Append(const FeatureValues& other) {
  ints.insert(ints.end(), other.ints.begin(), other.ints.end());
  floats.insert(floats.end(), other.floats.begin(), other.floats.end());
  strings.insert(strings.end(), other.strings.begin(), other.strings.end());
}

}  // namespace cohort
