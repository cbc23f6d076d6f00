#pragma once

// Trained weights in any file that Keras, TensorFlow, NumPy or PyTorch's users write. What a file
// is follows from its content, not from its name. Opening a file gives the list of its values, with
// everything by which they can be matched with the variables of a model (match_weights.h); a value
// is read when somebody asks for it.

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "common/tensor/tensor.h"

namespace cohort {

enum class WeightFileKind {
  kTensorFlowCheckpoint,  // V2: of TensorFlow 1 and 2, of Keras, of a SavedModel, of Cohort
  kKerasWeights,          // .weights.h5
  kKerasArchive,          // .keras
  kLegacyHdf5,            // .h5: a whole model, or save_weights
  kNpz,
  kSafetensors,
};
absl::string_view WeightFileKindName(WeightFileKind kind);

// The purpose of a value.
enum class WeightRole {
  kWeight,     // a layer's: trained, or a statistic
  kOptimizer,  // a slot or a counter of the optimizer
  kOther,      // a metric, the state of random numbers, a counter of the program
};

// One value of a file.
struct WeightEntry {
  std::string name;  // in the file: a tensor's name, or the path of a dataset
  // The variable's name, as far as the file says it, without ":0": "d1/kernel". Else empty.
  std::string variable;
  // The layer's name, as far as the file says it, and the group of the file that belongs to the
  // layer: "layers/dense_1". Only HDF5 files have these.
  std::string layer;
  std::string group;
  int position = -1;  // among the weights of the layer, or of the optimizer; -1: not known
  WeightRole role = WeightRole::kWeight;
  DType dtype = DType::kUndefined;  // kUndefined: the value cannot be read
  Shape shape;
};

// Texts that a file has besides its values. A text that it does not have is empty.
struct WeightFileTexts {
  std::string keras_version;
  std::string config;           // JSON of the model
  std::string training_config;  // JSON of compile(), which .keras files keep in `config`
};

// The reader of one kind of file. Thread-safe.
class WeightSource {
 public:
  virtual ~WeightSource() = default;
  // Reads the value of the entry number `index`. Errors name the file and the value.
  virtual absl::StatusOr<Tensor> Read(size_t index) const = 0;
};

// A file of weights that is open for reading. Thread-safe.
struct WeightFile {
  WeightFileKind kind = WeightFileKind::kSafetensors;
  std::string path;
  WeightFileTexts texts;
  // In the order of the layers where the file has one (kLegacyHdf5), else in that of the file.
  std::vector<WeightEntry> entries;
  // Names of values that are left out because their types are not supported, with their types.
  std::vector<std::string> left_out;
  std::unique_ptr<const WeightSource> source;
};

}  // namespace cohort
