#pragma once

// Elements of arrays as files of other programs hold them: more types than tensors have, and either
// byte order. Every reader of the room turns its file's type into a StoredType, and reads elements
// through this header, so that sizes are checked in one place before memory is taken.
//
// Tensors have no integers of 16 bits and no unsigned ones of 32 or 64. Such elements become the
// next wider signed type, which holds every value: int16 and uint16 become int32, uint32 becomes
// int64, and so does uint64, whose values above 2^63 - 1 are refused.

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "common/base/file_system.h"
#include "common/tensor/tensor.h"

namespace cohort {

// Upper bound on the axes of an array in a file, as in NumPy.
inline constexpr size_t kStoredRankMax = 64;

// The type and byte order of elements in a file.
struct StoredType {
  enum class Kind { kFloat, kBfloat16, kSigned, kUnsigned, kBool };
  Kind kind = Kind::kFloat;
  int bytes = 4;  // width of one element
  bool big_endian = false;
};

// Returns the element type of tensors that are read from elements of `type`, or kUndefined if no
// reader takes such elements.
DType DTypeOfStored(const StoredType& type);

// Returns the stored type that has the values of `dtype` unchanged.
StoredType StoredTypeOf(DType dtype);

// Returns the number of bytes of an array of `dims` with elements of `element_bytes`. Errors:
// INVALID_ARGUMENT for a negative size along an axis, for more than kStoredRankMax axes, and for
// more than 2^62 bytes, also if the size along another axis is 0.
absl::StatusOr<uint64_t> StoredBytes(absl::Span<const int64_t> dims, int element_bytes);

// Returns the tensor of `shape`, whose size must have passed StoredBytes, from elements in memory.
// Errors: INVALID_ARGUMENT if the number of bytes is wrong, if a bool is neither 0 nor 1, and for a
// value that the tensor's type cannot hold; UNIMPLEMENTED for a type that no reader takes.
absl::StatusOr<Tensor> DecodeElements(absl::Span<const char> bytes, const StoredType& type,
                                      const Shape& shape);

// Reads the tensor of `shape`, whose size must have passed StoredBytes, from the bytes of `file`
// from `offset` on. Memory is taken only if the file has that many bytes. Errors: as
// DecodeElements; OUT_OF_RANGE beyond the end of the file; the file's errors.
absl::StatusOr<Tensor> ReadElements(const ReadableFile& file, uint64_t offset,
                                    const StoredType& type, const Shape& shape);

// Returns DATA_LOSS that says what is wrong with the content of the file `path`.
absl::Status MalformedFile(absl::string_view path, absl::string_view what);

}  // namespace cohort
