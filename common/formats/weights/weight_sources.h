#pragma once

// The kinds of files behind OpenWeights (open_weights.h). Each function takes an open file and
// returns its values.

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "common/base/file_system.h"
#include "common/formats/hdf5/hdf5_file.h"
#include "common/formats/tensor_file.h"
#include "common/formats/weights/weight_file.h"

namespace cohort {

// Returns the values of .npz and safetensors, whose names are those of the variables.
WeightFile WeightsOfTensors(std::unique_ptr<TensorFile> file);

// Returns the values of an HDF5 file that Keras wrote, and its kind: kKerasWeights or kLegacyHdf5.
// Errors: UNIMPLEMENTED for a file without Keras's groups; DATA_LOSS for names without datasets.
absl::StatusOr<WeightFile> WeightsOfHdf5(std::unique_ptr<Hdf5File> file);

// Returns the values of the checkpoint `prefix`. With an object graph, variables have the names
// that it gives them. Errors: those of BundleReader::Open; DATA_LOSS for a damaged object graph.
absl::StatusOr<WeightFile> WeightsOfCheckpoint(FileSystem& files, const std::string& prefix);

// Returns a variable's name without the ":0" that TensorFlow writes behind it.
std::string WithoutOutput(absl::string_view name);

}  // namespace cohort
