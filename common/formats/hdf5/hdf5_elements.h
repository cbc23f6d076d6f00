#pragma once

// The elements of a dataset as a tensor, whatever the layout of the dataset (hdf5_dataset.h).

#include "absl/status/statusor.h"
#include "common/formats/hdf5/hdf5_dataset.h"
#include "common/tensor/tensor.h"

namespace cohort {

// Reads the elements of a dataset. Memory is taken only if the file has the bytes for it. Errors:
// DATA_LOSS; UNIMPLEMENTED for a type or a filter that is not supported; the file's errors.
absl::StatusOr<Tensor> ReadHdf5Dataset(Hdf5Source& source, const Hdf5Dataset& dataset);

}  // namespace cohort
