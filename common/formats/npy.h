#pragma once

// NumPy's .npy format: a magic number, a version, the length of a header, the header, which is a
// Python dict {'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }, and the elements. Only
// arrays of numbers and bools are read; records, strings and objects are refused by name (objects
// are pickles, which run code when they are read).

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "common/base/file_system.h"
#include "common/formats/stored_elements.h"
#include "common/tensor/tensor.h"

namespace cohort {

// Upper bound on the header's bytes. NumPy itself asks the user above 10,000 bytes.
inline constexpr size_t kNpyHeaderMax = 65536;

// The description that stands before the elements of an array.
struct NpyHeader {
  std::string descr;  // NumPy's word for the type: "<f4"
  StoredType type;    // valid if `supported`
  bool supported = false;
  bool fortran_order = false;
  Shape shape;
  uint64_t data_begin = 0;  // offset of the elements
};

// Returns true if the file begins with the magic number of .npy.
bool LooksLikeNpy(const ReadableFile& file);

// Reads the bytes before the elements. A type that is not supported is not an error here. Errors:
// DATA_LOSS for a header that does not have NumPy's form, or whose elements do not end with the
// file; the file's errors. `path` is for messages.
absl::StatusOr<NpyHeader> ReadNpyHeader(const ReadableFile& file, absl::string_view path);

// Reads the array whose header ReadNpyHeader has read from `file`, in row-major order whatever the
// order in the file. Errors: UNIMPLEMENTED for a type that is not supported; DATA_LOSS.
absl::StatusOr<Tensor> ReadNpy(const ReadableFile& file, const NpyHeader& header,
                               absl::string_view path);

// Returns the bytes that stand before the elements of a tensor's array. Errors: INVALID_ARGUMENT
// for bfloat16, which NumPy does not know.
absl::StatusOr<std::string> NpyHeaderBytes(const Tensor& tensor);

}  // namespace cohort
