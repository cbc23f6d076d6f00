#pragma once

// Bytes of an HDF5 file by address. Everything that describes the file's content is read through a
// Hdf5Source, which has a budget: structures of a hostile file may overlap or point at each other,
// and without the budget a small file could keep its reader busy for hours or fill its memory.

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "common/base/file_system.h"

namespace cohort {

// The address by which HDF5 says that something does not exist.
inline constexpr uint64_t kHdf5NoAddress = ~uint64_t{0};

// Reads numbers in little-endian order. Past the end of the bytes, Take() returns zeros and ok()
// becomes false, so that callers check once after several numbers. Thread-compatible.
class Hdf5Bytes {
 public:
  explicit Hdf5Bytes(absl::string_view bytes) : bytes_(bytes) {}

  bool ok() const { return ok_; }
  size_t left() const { return bytes_.size() - position_; }
  size_t position() const { return position_; }
  // Returns the number in the next `width` bytes, of which there are at most 8.
  uint64_t Take(size_t width);
  absl::string_view TakeBytes(uint64_t count);
  void Skip(uint64_t count) { TakeBytes(count); }
  // Skips to the next position that is a multiple of 8, as far as there are bytes.
  void SkipToMultipleOf8();

 private:
  absl::string_view bytes_;
  size_t position_ = 0;
  bool ok_ = true;
};

// The bytes of a file, counted from a base address, with the budget for reading them.
// Thread-compatible.
class Hdf5Source {
 public:
  // The file must outlive the source. `path` is for messages.
  Hdf5Source(const ReadableFile& file, std::string path, uint64_t base);

  const ReadableFile& file() const { return file_; }
  uint64_t base() const { return base_; }
  // Returns the number of bytes from the base address to the end of the file.
  uint64_t size() const { return file_.size() - base_; }

  // Reads bytes that describe the content. Errors: DATA_LOSS for bytes that the file does not have,
  // and for a budget that is spent; the file's errors.
  absl::StatusOr<std::string> Read(uint64_t address, uint64_t length);
  // Reads like Read(). Also checks that the bytes begin with the 4 bytes of `signature` and, if
  // `checksum` is set, that they end with their checksum, which is left out of the result.
  absl::StatusOr<std::string> ReadBlock(uint64_t address, uint64_t length,
                                        absl::string_view signature, bool checksum);
  // Charges to the budget the memory that is taken for the content of what was read.
  absl::Status Spend(uint64_t bytes);

  absl::Status Malformed(absl::string_view what) const;
  absl::Status Unsupported(absl::string_view what) const;

 private:
  const ReadableFile& file_;
  const std::string path_;
  const uint64_t base_;
  uint64_t left_ = 0;  // bytes that the budget still has
};

// Returns the checksum of HDF5's metadata: Bob Jenkins's lookup3 with the initial value 0.
uint32_t Hdf5Checksum(absl::string_view bytes);

}  // namespace cohort
