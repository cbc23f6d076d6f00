#pragma once

// Pieces of HDF5's metadata as bytes, for the writer.

#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"
#include "common/tensor/dtype.h"
#include "common/tensor/shape.h"

namespace cohort {

// Appends the low `bytes` bytes of `value`, lowest first.
void PutHdf5(std::string& out, uint64_t value, int bytes);
// Appends zeros up to a multiple of 8 bytes.
void PadHdf5(std::string& out);

// Returns the description of a tensor's elements; of bfloat16, that of two bytes without a meaning.
std::string Hdf5TypeOf(DType dtype);
// Returns the description of strings of `width` bytes, with zeros behind shorter ones.
std::string Hdf5FixedStringType(uint64_t width, bool utf8);
// Returns the description of strings in a global heap, in UTF-8.
std::string Hdf5VariableStringType();
std::string Hdf5SpaceOf(const Shape& shape);

// Returns a message of an object header.
std::string Hdf5MessageBytes(uint16_t type, absl::string_view body);
// Returns the body of an attribute's message.
std::string Hdf5AttributeBytes(absl::string_view name, absl::string_view type,
                               absl::string_view space, absl::string_view elements);
// Returns an object header with so many messages, which are concatenated in `bytes`.
std::string Hdf5HeaderBytes(uint16_t messages, absl::string_view bytes);

}  // namespace cohort
