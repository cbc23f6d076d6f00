#include "common/formats/hdf5/hdf5_encoding.h"

#include "common/tensor/tensor.h"

namespace cohort {

namespace {

std::string FloatType(uint64_t size) {
  // The places and sizes of sign, exponent and mantissa, and the exponent's bias.
  const uint64_t exponent_bits = size == 2 ? 5 : (size == 4 ? 8 : 11);
  const uint64_t mantissa_bits = 8 * size - 1 - exponent_bits;
  std::string out("\x11\x20", 2);  // version 1, class 1; the mantissa's first 1 is not stored
  PutHdf5(out, 8 * size - 1, 2);
  PutHdf5(out, size, 4);
  PutHdf5(out, 0, 2);
  PutHdf5(out, 8 * size, 2);
  PutHdf5(out, mantissa_bits, 1);
  PutHdf5(out, exponent_bits, 1);
  PutHdf5(out, 0, 1);
  PutHdf5(out, mantissa_bits, 1);
  PutHdf5(out, (uint64_t{1} << (exponent_bits - 1)) - 1, 4);
  return out;
}

std::string IntegerType(uint64_t size, bool is_signed) {
  std::string out("\x10", 1);  // version 1, class 0
  PutHdf5(out, is_signed ? 8 : 0, 3);
  PutHdf5(out, size, 4);
  PutHdf5(out, 0, 2);
  PutHdf5(out, 8 * size, 2);
  return out;
}

// Returns h5py's form of bool, an enumeration.
std::string BoolType() {
  std::string out("\x18", 1);  // version 1, class 8
  PutHdf5(out, 2, 3);
  PutHdf5(out, 1, 4);
  out += IntegerType(1, true);
  out += std::string("FALSE\0\0\0TRUE\0\0\0\0\x00\x01", 18);
  return out;
}

}  // namespace

void PutHdf5(std::string& out, uint64_t value, int bytes) {
  for (int i = 0; i < bytes; ++i) out.push_back(static_cast<char>(value >> (8 * i)));
}

void PadHdf5(std::string& out) { out.append((8 - out.size() % 8) % 8, '\0'); }

std::string Hdf5TypeOf(DType dtype) {
  const uint64_t size = ElementSize(dtype);
  switch (dtype) {
    case DType::kBool:
      return BoolType();
    case DType::kUint8:
      return IntegerType(size, false);
    case DType::kInt8:
    case DType::kInt32:
    case DType::kInt64:
      return IntegerType(size, true);
    case DType::kBfloat16:
      return std::string("\x15\0\0\0\x02\0\0\0", 8);  // version 1, class 5
    default:
      return FloatType(size);
  }
}

std::string Hdf5FixedStringType(uint64_t width, bool utf8) {
  std::string out("\x13", 1);  // version 1, class 3
  PutHdf5(out, utf8 ? 0x11 : 0x01, 3);
  PutHdf5(out, width, 4);
  return out;
}

std::string Hdf5VariableStringType() {
  std::string out("\x19", 1);  // version 1, class 9
  PutHdf5(out, 0x101, 3);      // strings, in UTF-8
  PutHdf5(out, 16, 4);
  return out + IntegerType(1, false);
}

std::string Hdf5SpaceOf(const Shape& shape) {
  std::string out("\x01", 1);
  PutHdf5(out, static_cast<uint64_t>(shape.rank()), 1);
  PutHdf5(out, 0, 6);
  for (const int64_t dim : shape.dims()) PutHdf5(out, static_cast<uint64_t>(dim), 8);
  return out;
}

std::string Hdf5MessageBytes(uint16_t type, absl::string_view body) {
  std::string padded(body);
  PadHdf5(padded);
  std::string out;
  PutHdf5(out, type, 2);
  PutHdf5(out, padded.size(), 2);
  PutHdf5(out, 0, 4);
  return out + padded;
}

std::string Hdf5AttributeBytes(absl::string_view name, absl::string_view type,
                               absl::string_view space, absl::string_view elements) {
  std::string out("\x01\0", 2);
  PutHdf5(out, name.size() + 1, 2);
  PutHdf5(out, type.size(), 2);
  PutHdf5(out, space.size(), 2);
  out += std::string(name) + '\0';
  PadHdf5(out);
  out += std::string(type);
  PadHdf5(out);
  out += std::string(space);
  PadHdf5(out);
  return out + std::string(elements);
}

std::string Hdf5HeaderBytes(uint16_t messages, absl::string_view bytes) {
  std::string out("\x01\0", 2);
  PutHdf5(out, messages, 2);
  PutHdf5(out, 1, 4);  // links to the object
  PutHdf5(out, bytes.size(), 4);
  PadHdf5(out);
  return out + std::string(bytes);
}

}  // namespace cohort
