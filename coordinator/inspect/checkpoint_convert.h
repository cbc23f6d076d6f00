#pragma once

// Trained weights of one kind of file, written as another one.

#include <string>

#include "absl/status/statusor.h"
#include "common/base/file_system.h"

namespace cohort {

// Writes the values of a file that OpenWeights reads to a new file: NumPy's .npz, .safetensors, or
// a TensorFlow V2 checkpoint if `to` is a prefix, such as "ckpt-5" or "model.ckpt". Values get the
// names of their variables (value_names.h). .npz and .safetensors need memory for all values at
// once. Returns what was written, with a line for each value that was left out because of its type.
// Errors: INVALID_ARGUMENT for another ending, for a file without values, and for names or types
// that the target cannot have; ALREADY_EXISTS if the target is there; those of OpenWeights, of
// WeightSource::Read and of the file system.
absl::StatusOr<std::string> ConvertCheckpoint(FileSystem& files, const std::string& from,
                                              const std::string& to);

}  // namespace cohort
