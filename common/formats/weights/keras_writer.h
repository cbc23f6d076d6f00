#pragma once

// Files of weights as Keras 2.15 and 3 write them. A model is a tree of groups in an HDF5 file:
// each layer, and each part of a layer that has variables of its own, is a group, whose variables
// are "vars/0", "vars/1", ... in the group "vars". Keras 3.6 and later write a layer's name beside
// its variables. A .keras archive is a ZIP of that file and of two JSON texts.

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "common/base/file_system.h"
#include "common/tensor/tensor.h"

namespace cohort {

// A layer, or a part of a layer, with its variables.
struct KerasGroup {
  std::string path;                 // "layers/lstm/cell"; empty: the model itself
  std::string name = {};            // the layer's name; empty: none is written
  std::vector<Tensor> values = {};  // values of its own variables, in Keras's order
};

// The texts of a .keras archive.
struct KerasTexts {
  std::string config;    // JSON of the model, for config.json
  std::string metadata;  // JSON that names the version of Keras, for metadata.json
};

// Writes a .weights.h5 file. All values are in memory at once. Errors: INVALID_ARGUMENT for a path
// that is given twice or that HDF5 cannot name; the file system's errors.
absl::Status WriteKerasWeights(FileSystem& files, const std::string& path,
                               absl::Span<const KerasGroup> groups);

// Writes a .keras archive, with the same errors.
absl::Status WriteKerasArchive(FileSystem& files, const std::string& path, const KerasTexts& texts,
                               absl::Span<const KerasGroup> groups);

}  // namespace cohort
