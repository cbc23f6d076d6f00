#pragma once

// Element types and shapes of HDF5's datasets and attributes.

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/formats/hdf5/hdf5_source.h"
#include "common/formats/stored_elements.h"

namespace cohort {

struct Hdf5Type {
  enum class Kind {
    kNumber,          // a number of type `stored`
    kFixedString,     // a string of `size` bytes
    kVariableString,  // a string in a global heap, by reference
    kOpaque,          // `size` bytes without a meaning
    kOther,           // not supported
  };
  // The filling behind a string that is shorter than its place.
  enum class Padding { kNullTerminated, kNulls, kSpaces };

  Kind kind = Kind::kOther;
  StoredType stored;
  uint64_t size = 0;  // bytes of one element
  Padding padding = Padding::kNullTerminated;
  std::string name;  // the name of the type, for messages
};

// Reads the description of a type; `in` is then at the first byte after the description. An
// unsupported type is not an error. Errors: DATA_LOSS.
absl::StatusOr<Hdf5Type> ParseHdf5Type(const Hdf5Source& source, Hdf5Bytes& in);

struct Hdf5Space {
  bool has_elements = true;  // false: the space is empty, neither a scalar nor an array
  std::vector<int64_t> dims;
};

// Reads the description of a shape. Errors: DATA_LOSS; UNIMPLEMENTED for another version.
absl::StatusOr<Hdf5Space> ParseHdf5Space(const Hdf5Source& source, Hdf5Bytes& in);

}  // namespace cohort
