#pragma once

// The links of a group: by the symbol table of old files, by messages, or by a heap with a tree.

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/formats/hdf5/hdf5_header.h"

namespace cohort {

struct Hdf5Link {
  std::string name;
  uint64_t address = 0;  // where the object's header begins
};

// Returns the links that the messages of an object name, sorted by name; none for a dataset.
// Errors: DATA_LOSS; UNIMPLEMENTED for links that are not hard: what they lead to may be another
// file.
absl::StatusOr<std::vector<Hdf5Link>> ReadHdf5Links(Hdf5Source& source,
                                                    const std::vector<Hdf5Message>& messages);

}  // namespace cohort
