#pragma once

// Attributes: small values that belong to a group or a dataset.

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/formats/hdf5/hdf5_header.h"
#include "common/tensor/tensor.h"

namespace cohort {

struct Hdf5Attribute {
  std::string name;
  bool is_text = false;
  bool is_scalar = false;
  std::vector<std::string> strings;  // the values if is_text
  Tensor numbers;    // the values if not is_text; without a value if the type is not supported
  std::string type;  // the name of the type, for messages
};

// The reader of a file's attributes, which keeps the heaps of strings that it has met.
// Thread-compatible.
class Hdf5AttributeReader {
 public:
  explicit Hdf5AttributeReader(Hdf5Source& source) : source_(source) {}

  // Returns the attributes of an object, in the file's order. Errors: DATA_LOSS; UNIMPLEMENTED.
  absl::StatusOr<std::vector<Hdf5Attribute>> Read(const std::vector<Hdf5Message>& messages);

 private:
  using HeapObjects = std::map<uint64_t, std::string>;

  absl::StatusOr<Hdf5Attribute> Parse(absl::string_view message);
  absl::Status ReadDense(const std::string& message, std::vector<Hdf5Attribute>& attributes);
  absl::StatusOr<std::string> StringOfHeap(absl::string_view reference);
  // Returns the objects of the global heap at `address`, by their numbers.
  absl::StatusOr<const HeapObjects*> HeapAt(uint64_t address);

  Hdf5Source& source_;
  std::map<uint64_t, HeapObjects> heaps_;
};

}  // namespace cohort
