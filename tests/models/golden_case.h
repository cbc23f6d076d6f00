#pragma once

// Golden cases of Keras models: what Keras 2.15 and Keras 3.15 computed for one layer, activation,
// initializer, optimizer, loss or metric. tests/golden/models/golden_models.py, which wrote the
// cases, describes their keys. A case belongs to a family (families.txt); the cases of one version
// and family are one pack (tests/golden/models/VERSION/FAMILY.jsonl.gz).

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "common/tensor/tensor.h"
#include "nlohmann/json.hpp"

namespace cohort {

// The largest difference that a case allows: |a - b| <= max(absolute, relative |b|).
struct GoldenTolerance {
  double relative = 0;
  double absolute = 0;
};

// One array of a case.
struct GoldenTensor {
  std::string name;
  DType dtype = DType::kFloat32;
  Shape shape;
  std::vector<double> values;  // row-major; booleans are 0 and 1
};

// One case. Immutable after it was read; thread-compatible.
struct ModelCase {
  std::string version;  // "k2.15" or "k3.15"
  std::string name;
  std::string kind;  // "layer", "activation", "loss", ...
  std::string class_name;
  nlohmann::json json;  // the whole case
};

// Returns the versions of Keras that have cases.
const std::vector<std::string>& ModelCaseVersions();

// Returns the names of the families, in the order of families.txt.
const std::vector<std::string>& ModelCaseFamilies();

// Returns the family of a class of this kind, or "" if families.txt lists neither.
std::string FamilyOf(const std::string& kind, const std::string& class_name);

// Reads the cases of a version and family, sorted by name. They come from the pack, or from the
// JSON files DIR/VERSION/*.json if the environment names a folder in COHORT_GOLDEN_MODELS=DIR.
// Errors: INVALID_ARGUMENT or NOT_FOUND that names the file.
absl::StatusOr<std::vector<ModelCase>> ReadModelCases(const std::string& version,
                                                      const std::string& family);

// Returns the unpacked text of a gzip file. Errors: INVALID_ARGUMENT or NOT_FOUND that names it.
absl::StatusOr<std::string> ReadGzip(const std::string& path);

// Returns the folder that COHORT_GOLDEN_MODELS names, or "".
std::string UnpackedModelCases();

// Returns the arrays under `key`, or none if `parent` has no such key.
std::vector<GoldenTensor> TensorsOf(const nlohmann::json& parent, const char* key);

// Returns the tolerance in `parent`.
GoldenTolerance ToleranceOf(const nlohmann::json& parent);

// Returns the array as a tensor of the type that the case says.
Tensor ToTensor(const GoldenTensor& golden);

// Returns "" if `actual` has the shape and, within `tolerance`, the values of `expected`; else a
// text with the worst element. Infinite values and NaN must be equal.
std::string Difference(const GoldenTensor& expected, const Tensor& actual,
                       const GoldenTolerance& tolerance);

}  // namespace cohort
