#pragma once

// Keras's dtype policies that layers compute by. The mixed ones round the factors of products to
// bfloat16 (common/program/product_precision.h); all else is float32.

#include "absl/strings/string_view.h"

namespace cohort {

inline constexpr char kFloat32Policy[] = "float32";
inline constexpr char kMixedBfloat16Policy[] = "mixed_bfloat16";
inline constexpr char kMixedFloat16Policy[] = "mixed_float16";
inline constexpr char kDTypePolicies[] = "'float32', 'mixed_bfloat16' or 'mixed_float16'";

inline bool IsMixedPolicy(absl::string_view name) {
  return name == kMixedBfloat16Policy || name == kMixedFloat16Policy;
}
inline bool IsDTypePolicy(absl::string_view name) {
  return name == kFloat32Policy || IsMixedPolicy(name);
}

}  // namespace cohort
