#pragma once

// Trained weights in a file of Keras, TensorFlow, NumPy or safetensors. The format of a file is
// recognised by its content, not by its name. Opening a file lists its values, with all that helps
// to match them with the variables of a model (match_weights.h). A value is read only when a caller
// asks for it.

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "common/tensor/tensor.h"

namespace cohort {

enum class WeightFileKind {
  kTensorFlowCheckpoint,  // format V2, written by TensorFlow 1 or 2, Keras or Cohort
  kKerasWeights,          // .weights.h5
  kKerasArchive,          // .keras
  kLegacyHdf5,            // .h5, of a whole model or of save_weights
  kNpz,
  kSafetensors,
};
absl::string_view WeightFileKindName(WeightFileKind kind);

// The purpose of a value.
enum class WeightRole {
  kWeight,     // a variable of a layer, trained or not
  kOptimizer,  // a slot or a counter of the optimizer
  kOther,      // a metric, the state of random numbers, a counter of the program
};

// One value of a file.
struct WeightEntry {
  std::string name;  // name in the file: a tensor's name, or the path of a dataset
  // The variable's name without ":0", such as "d1/kernel"; empty if the file does not tell it.
  std::string variable;
  // The layer's name, and the path of the layer's group in the file, such as "layers/dense_1". Only
  // HDF5 files have groups. Empty if the file does not tell them.
  std::string layer;
  std::string group;
  int position = -1;  // position among the weights of the layer or the optimizer; -1: unknown
  WeightRole role = WeightRole::kWeight;
  DType dtype = DType::kUndefined;  // kUndefined: the value cannot be read
  Shape shape;
};

// Texts that a file has besides its values. A text that the file does not have is empty.
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
  // The values: in the order of the layers for kLegacyHdf5, else in the order of the file.
  std::vector<WeightEntry> entries;
  // Names and types of values that are not in `entries`, because their types are not supported.
  std::vector<std::string> left_out;
  std::unique_ptr<const WeightSource> source;
};

}  // namespace cohort
