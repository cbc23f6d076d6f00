#include "common/records/examples/feature.h"

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

}  // namespace cohort
