#include "common/formats/weights/weight_file.h"

namespace cohort {

absl::string_view WeightFileKindName(WeightFileKind kind) {
  switch (kind) {
    case WeightFileKind::kTensorFlowCheckpoint:
      return "TensorFlow checkpoint";
    case WeightFileKind::kKerasWeights:
      return "Keras weights";
    case WeightFileKind::kKerasArchive:
      return "Keras archive";
    case WeightFileKind::kLegacyHdf5:
      return "Keras HDF5";
    case WeightFileKind::kNpz:
      return "npz";
    case WeightFileKind::kSafetensors:
      return "safetensors";
  }
  return "";
}

}  // namespace cohort
