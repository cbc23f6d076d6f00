#pragma once

// Fractal heaps and version-2 B-trees of HDF5. New files keep the links of a large group, and the
// attributes of an object that has many, in such a pair: the tree has records with ids, and the
// heap gives the object of an id.

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "common/formats/hdf5/hdf5_source.h"

namespace cohort {

// Returns all records of the tree at `address`, in its order. Errors: DATA_LOSS.
absl::StatusOr<std::vector<std::string>> ReadHdf5Tree(Hdf5Source& source, uint64_t address);

// A fractal heap whose header has been read. Objects of a filtered heap, and objects above the
// heap's largest managed size, are not supported. Thread-compatible.
class Hdf5Heap {
 public:
  static absl::StatusOr<Hdf5Heap> Open(Hdf5Source& source, uint64_t address);

  // Returns the number of bytes of an id.
  uint64_t id_bytes() const { return id_bytes_; }
  // Returns the object with this id. Errors: DATA_LOSS; UNIMPLEMENTED for a kind of object that is
  // not supported.
  absl::StatusOr<std::string> Read(Hdf5Source& source, absl::string_view id) const;

 private:
  absl::StatusOr<std::string> ReadManaged(Hdf5Source& source, Hdf5Bytes id) const;
  // Reads an object below the indirect block at `address`, which has `rows` rows of blocks, given
  // the object's offset in the space of the block.
  absl::StatusOr<std::string> ReadBelow(Hdf5Source& source, uint64_t address, uint64_t rows,
                                        uint64_t offset, uint64_t length) const;
  // Returns log2 of the size of the blocks in a row of the table.
  uint64_t RowSizeLog(uint64_t row) const { return row == 0 ? start_log_ : start_log_ + row - 1; }

  uint64_t id_bytes_ = 0;
  uint64_t offset_bytes_ = 0;  // width of an offset in an id
  uint64_t length_bytes_ = 0;  // width of a length in an id
  uint64_t table_width_ = 0;   // blocks in a row
  uint64_t start_log_ = 0;     // log2 of the size of the first blocks
  uint64_t direct_log_ = 0;    // log2 of the size of the largest direct block
  uint64_t root_ = 0;
  uint64_t root_rows_ = 0;  // 0: the root is a direct block
};

}  // namespace cohort
