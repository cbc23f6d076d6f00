#pragma once

// The reader and checker of prefix.index, which says for each tensor of a checkpoint its type and
// shape, and in which data shard and where each of its slices lies. The reader does not look at the
// data shards.

#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/base/file_system.h"
#include "common/checkpoint/slice_box.h"
#include "common/tensor/dtype.h"
#include "common/tensor/shape.h"

namespace cohort {

struct StoredSlice {
  SliceBox box;
  int shard = 0;
  int64_t offset = 0;
  int64_t size = 0;
  // CRC-32C of the slice's bytes, unmasked; the file holds it masked (MaskCrc32c).
  uint32_t crc32c = 0;
};

struct StoredTensor {
  DType dtype = DType::kUndefined;
  Shape shape;
  // The tensor's slices, which cover the tensor exactly once. A tensor that was saved whole has one
  // slice.
  std::vector<StoredSlice> slices;
};

// The place of a tensor of strings.
struct StoredStrings {
  int64_t count = 0;
  int shard = 0;
  int64_t offset = 0;
  int64_t size = 0;  // bytes of all strings with their lengths
  uint32_t crc32c = 0;
};

struct BundleIndex {
  int num_shards = 0;
  std::map<std::string, StoredTensor> tensors;
  // The tensors of strings that were saved whole. They are in `foreign` too.
  std::map<std::string, StoredStrings> strings;
  // TensorFlow's type numbers of the tensors whose types Cohort does not support, by tensor name.
  std::map<std::string, int> foreign;
};

// Reads the index in `file` and checks every entry. Errors: DATA_LOSS that names `path` for a
// damaged index; UNIMPLEMENTED for a big-endian format or a newer format; those of
// ReadableFile::Read.
absl::StatusOr<BundleIndex> ReadIndex(const ReadableFile& file, const std::string& path);

}  // namespace cohort
