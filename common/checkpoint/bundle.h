#pragma once

// TensorFlow V2 checkpoints ("tensor bundles"): prefix.index is a leveldb-format table from tensor names to
// BundleEntryProto with a header entry under the empty key; prefix.data-0000i-of-0000N hold the bytes. A partitioned
// variable is one logical entry that lists slices, each stored under its own encoded key. A state file `checkpoint`
// names the latest. Format after tensorflow/core/util/tensor_bundle and tensor_slice_util.
//
// Writing: each task writes its data shard (DataShardWriter) and reports SavedSlices; the coordinator writes the index
// last (WriteIndex) and then the state file, so a crash at any moment leaves the previous checkpoint loadable.

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/base/file_system.h"
#include "common/tensor/slice_spec.h"
#include "common/tensor/tensor.h"
#include "proto/ps.pb.h"

namespace cohort {

// "prefix.data-00001-of-00003".
std::string DataShardPath(const std::string& prefix, int shard, int num_shards);

// Writes one data shard: to a temporary name first, renamed when finished. Thread-compatible.
class DataShardWriter {
 public:
  static absl::StatusOr<std::unique_ptr<DataShardWriter>> Create(FileSystem& files,
                                                                 const std::string& prefix,
                                                                 int shard, int num_shards);
  // Rows `rows` of the logical tensor `name` of shape `full_shape`; `value` has exactly these rows.
  absl::Status Add(const std::string& name, const Shape& full_shape, RowRange rows,
                   const Tensor& value);
  // Syncs, closes and renames. The entries to report.
  absl::StatusOr<std::vector<proto::SavedSlice>> Finish();

 private:
  DataShardWriter(FileSystem& files, std::string path, int shard,
                  std::unique_ptr<WritableFile> file);
  FileSystem& files_;
  const std::string path_;
  const int shard_;
  std::unique_ptr<WritableFile> file_;
  uint64_t offset_ = 0;
  std::vector<proto::SavedSlice> saved_;
};

// Writes prefix.index. Errors: INVALID_ARGUMENT when slices of a tensor overlap or leave a gap.
absl::Status WriteIndex(FileSystem& files, const std::string& prefix, int num_shards,
                        absl::Span<const proto::SavedSlice> slices);

struct BundleTensor {
  DType dtype = DType::kUndefined;
  Shape shape;
};

// Reads a checkpoint, written here or by TensorFlow. Thread-safe after Open.
class BundleReader {
 public:
  // Errors: NOT_FOUND; DATA_LOSS naming the file when a checksum fails or a data shard is missing or short.
  static absl::StatusOr<std::unique_ptr<BundleReader>> Open(FileSystem& files,
                                                            const std::string& prefix);
  ~BundleReader();

  const std::map<std::string, BundleTensor>& tensors() const;
  // Errors: NOT_FOUND; DATA_LOSS; INVALID_ARGUMENT for rows outside the tensor. Every byte that is returned was
  // covered by a verified checksum.
  absl::StatusOr<Tensor> Read(const std::string& name) const;
  absl::StatusOr<Tensor> ReadRows(const std::string& name, RowRange rows) const;

 private:
  class Impl;
  explicit BundleReader(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

// The state file `checkpoint` of a directory (text form of tensorflow.CheckpointState).
struct CheckpointState {
  std::string latest;            // prefix, relative to the directory
  std::vector<std::string> all;  // oldest first
};
absl::StatusOr<CheckpointState> ReadCheckpointState(FileSystem& files, const std::string& directory);
absl::Status WriteCheckpointState(FileSystem& files, const std::string& directory,
                                  const CheckpointState& state);

}  // namespace cohort
