#pragma once

// Datasets in chunks. A B-tree lists the chunks of a dataset, each with its place in the dataset; a
// chunk may be shuffled and deflated.

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "common/formats/hdf5/hdf5_dataset.h"

namespace cohort {

// Reads the `bytes` bytes of a dataset that is stored in chunks, row by row, in the byte order of
// the file. Errors: as ReadHdf5Dataset.
absl::StatusOr<std::vector<char>> ReadHdf5Chunks(Hdf5Source& source, const Hdf5Dataset& dataset,
                                                 uint64_t bytes);

}  // namespace cohort
