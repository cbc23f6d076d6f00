#pragma once

// prefix.index, read and checked: what each tensor is and where each of its slices lies. The data
// shards are not looked at here.

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
  uint32_t crc32c = 0;  // unmasked
};

struct StoredTensor {
  DType dtype = DType::kUndefined;
  Shape shape;
  std::vector<StoredSlice> slices;  // cover the tensor exactly once; one when saved whole
};

struct BundleIndex {
  int num_shards = 0;
  std::map<std::string, StoredTensor> tensors;
  std::map<std::string, int> foreign;  // name to TensorFlow's number of a type that Cohort has not
};

// Errors: DATA_LOSS naming `path`; UNIMPLEMENTED for a big-endian or newer format; what
// ReadableFile::Read returns.
absl::StatusOr<BundleIndex> ReadIndex(const ReadableFile& file, const std::string& path);

}  // namespace cohort
