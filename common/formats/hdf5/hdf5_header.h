#pragma once

// Object headers of HDF5: an object, which is a group or a dataset, is a list of messages, each of
// which says one thing about it. Versions 1 and 2 of the header are read.

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/formats/hdf5/hdf5_source.h"

namespace cohort {

// The numbers of the messages that are read.
enum class Hdf5MessageType : uint16_t {
  kNil = 0x0,
  kDataspace = 0x1,
  kLinkInfo = 0x2,
  kDatatype = 0x3,
  kLink = 0x6,
  kExternalFiles = 0x7,
  kLayout = 0x8,
  kFilters = 0xb,
  kAttribute = 0xc,
  kContinuation = 0x10,
  kSymbolTable = 0x11,
  kAttributeInfo = 0x15,
};

struct Hdf5Message {
  Hdf5MessageType type = Hdf5MessageType::kNil;
  // True: the body is the address of the message, which several objects share, such as a named
  // type.
  bool shared = false;
  std::string body;
};

// Reads the messages of the object at `address`. Errors: DATA_LOSS; UNIMPLEMENTED for another
// version.
absl::StatusOr<std::vector<Hdf5Message>> ReadHdf5Header(Hdf5Source& source, uint64_t address);

}  // namespace cohort
