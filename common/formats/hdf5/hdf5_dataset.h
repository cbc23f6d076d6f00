#pragma once

// The elements of a dataset: where they lie, and how they are read. Elements lie in the object's
// header (compact), in one piece (contiguous), or in chunks, which a B-tree lists and which may be
// shuffled and deflated.

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/formats/hdf5/hdf5_header.h"
#include "common/formats/hdf5/hdf5_type.h"
#include "common/tensor/shape.h"

namespace cohort {

struct Hdf5Layout {
  enum class Kind { kCompact, kContiguous, kChunks, kOneChunk };
  Kind kind = Kind::kContiguous;
  std::string elements;           // the bytes of a compact dataset
  uint64_t address = 0;           // where the elements, the tree of chunks or the only chunk begin
  uint64_t stored_bytes = 0;      // bytes of contiguous elements, or of the only chunk
  std::vector<uint64_t> chunk;    // the size of a chunk along each axis
  std::vector<uint16_t> filters;  // in the order in which they were applied
};

struct Hdf5Dataset {
  Hdf5Type type;
  Shape shape;
  Hdf5Layout layout;
};

// Returns the dataset that the messages of an object describe. Errors: DATA_LOSS, also for a size
// that the file cannot hold; UNIMPLEMENTED for elements in other files, for virtual datasets and
// for what is not supported of the format.
absl::StatusOr<Hdf5Dataset> ParseHdf5Dataset(Hdf5Source& source,
                                             const std::vector<Hdf5Message>& messages);

}  // namespace cohort
